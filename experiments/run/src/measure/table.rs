//! A measured profile for people.

use sandtable_core::frame::{Column, Frame, Value};
use sandtable_hardware::Pair;

use super::Outcome;

impl Outcome {
    /// For people: rates alone, speeds beside each other, and how good they are.
    pub fn table(&self) -> String {
        let gpu = &self.profile.gpus[0];
        let numbers = ["steps/s", "busy", "MiB"].map(Column::number);
        let mut table = Frame::new([Column::words("alone")].into_iter().chain(numbers).collect::<Vec<Column>>());
        let dash = || "-".to_string();
        for (name, solo) in &gpu.solo {
            let rate = solo.step_s.map_or_else(dash, |step| format!("{:.2}", 1.0 / step));
            let busy = solo.utilisation.map_or_else(dash, |busy| format!("{:.0} %", busy * 100.0));
            table.push([name.into(), rate.into(), busy.into(), solo.memory_mib.into()]);
        }
        let mut out = table.text();
        let names: Vec<&String> = gpu.solo.keys().collect();
        let speed = |a: &str, b: &str| {
            gpu.pairs.iter().find_map(|Pair(one, other, first, second)| match () {
                () if one == a && other == b => *first,
                () if one == b && other == a => *second,
                () => None,
            })
        };
        let mut head = vec![Column::words("speed of, beside")];
        head.extend(names.iter().map(|name| Column::number((*name).clone())));
        let mut table = Frame::new(head);
        for a in &names {
            let mut row: Vec<Value> = vec![(*a).into()];
            row.extend(names.iter().map(|b| speed(a, b).map_or_else(dash, |speed| format!("{speed:.2}")).into()));
            table.push(row);
        }
        out += "\n";
        out += &table.text();
        if let Some(measured) = &gpu.measured {
            let of = |value: u32| f64::from(value) / 1e4;
            let flagged = measured.cells.iter().filter(|cell| !cell.flags.is_empty()).count();
            out += &format!(
                "\n{} cells, {flagged} flagged; the same pair twice differs by at most {:.4}; kappa {:.3}, mean error {:.4}, held out {:.4}; \
                 a job starts in {:.3} s and saves in {:.3} s\n",
                measured.cells.len(),
                of(measured.repeat_difference),
                f64::from(measured.kappa) / 1000.0,
                of(measured.law_mae),
                of(measured.held_out_mae),
                measured.start.as_secs_f64(),
                measured.save.as_secs_f64(),
            );
        }
        out
    }
}
