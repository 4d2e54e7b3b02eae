//! A control group (version 2) for all that a job starts, where this user may make one below its own. Whatever a job does to
//! its session, its environment or its guard: the kernel says which processes are in the group, and ends all of them at once.

use std::path::{Path, PathBuf};

use crate::Duration;

/// The group of one job.
#[derive(Clone)]
pub(super) struct Group(PathBuf);

impl Group {
    /// The group of the job below this guard, by name alone; none: this machine has no such groups.
    pub(super) fn of(guard: u32) -> Option<Group> {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
        let own = std::fs::read_to_string("/proc/self/cgroup").ok()?;
        // The same number is another process in another namespace, which may have the same groups.
        let namespace = std::fs::read_link("/proc/self/ns/pid").ok()?;
        let namespace: String = namespace.to_string_lossy().chars().filter(char::is_ascii_digit).collect();
        Some(Group(below(&mounts, &own)?.join(format!("sandtable-job-{namespace}-{guard}"))))
    }

    /// Makes it; none: this user may not, or this kernel can't end a group.
    pub(super) fn make(guard: u32) -> Option<Group> {
        let group = Group::of(guard)?;
        // One of the same name is that of a guard that was killed together with its host.
        group.end();
        std::fs::create_dir(&group.0).ok()?;
        if group.0.join("cgroup.kill").exists() {
            return Some(group);
        }
        group.end();
        None
    }

    /// Its folder.
    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// This process, and all that it starts from now on, are in the group.
    pub(super) fn enter(path: &Path) {
        // Where that is refused the guard ends the job alone.
        let _ = std::fs::write(path.join("cgroup.procs"), "0");
    }

    /// The processes that are in it, also in groups below; none where it was not entered.
    pub(super) fn members(&self) -> Vec<u32> {
        let mut found = Vec::new();
        members(&self.0, &mut found);
        found
    }

    /// Kills all that are in it, also in groups below, and removes it.
    pub(super) fn end(&self) {
        for _ in 0..1_000 {
            if !self.0.exists() {
                return;
            }
            let _ = std::fs::write(self.0.join("cgroup.kill"), "1");
            remove(&self.0);
            super::wait(Duration::from_millis(1));
        }
    }
}

fn members(group: &Path, found: &mut Vec<u32>) {
    let own = std::fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    // 0 is a process of another namespace.
    found.extend(own.lines().filter_map(|line| line.parse::<u32>().ok()).filter(|pid| *pid > 0));
    below_it(group).iter().for_each(|inner| members(inner, found));
}

/// The groups right below one.
fn below_it(group: &Path) -> Vec<PathBuf> {
    #[expect(clippy::disallowed_methods, reason = "the order does not matter")]
    let entries = std::fs::read_dir(group).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()).collect()
}

/// Removes a group and those below it, in which no process is left.
fn remove(group: &Path) {
    below_it(group).iter().for_each(|inner| remove(inner));
    // A group whose processes are still ending is removed later.
    let _ = std::fs::remove_dir(group);
}

/// The folder of a process' own group, by what the kernel says of its mounts and of its groups.
fn below(mounts: &str, own: &str) -> Option<PathBuf> {
    let own = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    let of = |line: &str| {
        let (place, kind) = line.split_once(" - ")?;
        let mut words = place.split(' ').skip(3);
        let (root, folder) = (words.next()?, words.next()?);
        // Of a mount of a part of the hierarchy all paths begin with that part.
        let own = Path::new(own).strip_prefix(root).ok()?;
        kind.starts_with("cgroup2 ").then(|| Path::new(folder).join(own))
    };
    mounts.lines().find_map(of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_those_of_the_groups_below_too() {
        let folder = tempfile::tempdir().expect("a folder");
        let inner = folder.path().join("inner");
        std::fs::create_dir(&inner).expect("a folder");
        std::fs::write(folder.path().join("cgroup.procs"), "12\n0\n34\n").expect("a file");
        std::fs::write(inner.join("cgroup.procs"), "56\n").expect("a file");
        assert_eq!(Group(folder.path().into()).members(), [12, 34, 56]);
        assert_eq!(Group(folder.path().join("none")).members(), [0; 0]);
    }

    #[test]
    fn the_own_group_is_found_below_its_mount() {
        let v1 = "36 31 0:33 / /sys/fs/cgroup/cpu rw,relatime shared:11 - cgroup cgroup rw,cpu\n";
        let v2 = "41 31 0:38 / /sys/fs/cgroup rw,relatime shared:9 - cgroup2 cgroup2 rw\n";
        let own = "2:cpu:/other\n0::/user.slice/session-2.scope\n";
        let found = |mounts: &str, own: &str| below(mounts, own).map(|path| path.display().to_string());
        let session = Some("/sys/fs/cgroup/user.slice/session-2.scope".to_string());
        assert_eq!(found(&format!("{v1}{v2}"), own), session);
        assert_eq!(
            found(&v2.replace("0:38 /", "0:38 /user.slice"), own),
            Some("/sys/fs/cgroup/session-2.scope".into())
        );
        assert_eq!(found(&v2.replace("0:38 /", "0:38 /docker/1"), own), None);
        assert_eq!((found(v1, own), found(v2, "2:cpu:/other\n")), (None, None));
    }
}
