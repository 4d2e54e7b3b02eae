//! The allocator of components: small blocks come from lists by size and go back to them, which takes a few instructions, where the
//! allocator of the standard library takes a tenth of a short run. What small blocks are cut from is not given back.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::ptr::null_mut;

/// Blocks are of this many bytes or a multiple, and so aligned.
const STEP: usize = 16;
/// How many sizes have a list; larger blocks are the standard library's.
const SIZES: usize = 32;
/// Bytes that are taken at a time to cut blocks from.
const CHUNK: usize = 32 << 10;

struct State {
    /// By size: the first free block, which holds the address of the next.
    free: [*mut u8; SIZES],
    /// What is left of the chunk that blocks are cut from.
    next: *mut u8,
    left: usize,
}

/// Free lists for a program of one thread, as a component is.
pub(crate) struct FreeLists(UnsafeCell<State>);

#[expect(unsafe_code, reason = "an allocator")]
// SAFETY: a component has one thread; natively the tests use one of their own.
unsafe impl Sync for FreeLists {}

impl FreeLists {
    pub(crate) const fn new() -> FreeLists {
        FreeLists(UnsafeCell::new(State { free: [null_mut(); SIZES], next: null_mut(), left: 0 }))
    }

    /// The list of a layout, if it has one.
    const fn list(layout: Layout) -> Option<usize> {
        let list = layout.size().div_ceil(STEP);
        if list == 0 || list > SIZES || layout.align() > STEP { None } else { Some(list - 1) }
    }
}

#[expect(unsafe_code, reason = "an allocator")]
// SAFETY: a block of list `n` has `(n + 1) * STEP` bytes, is aligned to `STEP`, and is in one place at a time: cut from the
// chunk, with the program, or in its list. Whatever has no list is the system's, by its layout both when it comes and goes.
unsafe impl GlobalAlloc for FreeLists {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some(list) = Self::list(layout) else { return unsafe { System.alloc(layout) } };
        let state = unsafe { &mut *self.0.get() };
        let block = state.free[list];
        if !block.is_null() {
            state.free[list] = unsafe { block.cast::<*mut u8>().read() };
            return block;
        }
        let size = (list + 1) * STEP;
        if state.left < size {
            let Ok(chunk) = Layout::from_size_align(CHUNK, STEP) else { return null_mut() };
            let next = unsafe { System.alloc(chunk) };
            if next.is_null() {
                return next;
            }
            (state.next, state.left) = (next, CHUNK);
        }
        let block = state.next;
        (state.next, state.left) = (unsafe { block.add(size) }, state.left - size);
        block
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let Some(list) = Self::list(layout) else { return unsafe { System.dealloc(block, layout) } };
        let state = unsafe { &mut *self.0.get() };
        unsafe { block.cast::<*mut u8>().write(state.free[list]) };
        state.free[list] = block;
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let Ok(new) = Layout::from_size_align(size, layout.align()) else { return null_mut() };
        match (Self::list(layout), Self::list(new)) {
            (None, None) if layout.size() > 0 => unsafe { System.realloc(block, layout, size) },
            (Some(before), Some(after)) if before == after => block,
            _ => {
                let moved = unsafe { self.alloc(new) };
                if !moved.is_null() {
                    unsafe { moved.copy_from_nonoverlapping(block, layout.size().min(size)) };
                    unsafe { self.dealloc(block, layout) };
                }
                moved
            }
        }
    }
}

#[cfg(target_arch = "wasm32")]
#[global_allocator]
static ALLOCATOR: FreeLists = FreeLists::new();

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Draws;

    /// Random blocks, each filled with a byte of its own: none is overwritten by another, whatever grows, shrinks, comes and goes.
    #[test]
    #[expect(unsafe_code, reason = "an allocator")]
    fn blocks_are_apart_and_keep_what_is_in_them() {
        let (lists, mut draws) = (FreeLists::new(), Draws::new(1));
        let mut blocks: Vec<(*mut u8, Layout, u8)> = Vec::new();
        let holds = |(block, layout, byte): (*mut u8, Layout, u8)| {
            // SAFETY: the block was allocated with this layout and filled.
            let bytes = unsafe { std::slice::from_raw_parts(block, layout.size()) };
            bytes.iter().all(|found| *found == byte)
        };
        let (mut grown, mut returned) = (0, 0);
        for step in 0..20_000u32 {
            let size = 1 + draws.below(if step % 7 == 0 { 3000 } else { 600 });
            let layout = Layout::from_size_align(size, 1 << draws.below(6)).expect("a layout");
            let byte = step as u8;
            match draws.below(3) {
                0 if !blocks.is_empty() => {
                    let entry = blocks.swap_remove(draws.below(blocks.len()));
                    assert!(holds(entry), "step {step}");
                    // SAFETY: it was allocated with this layout.
                    unsafe { lists.dealloc(entry.0, entry.1) };
                    returned += 1;
                }
                1 if !blocks.is_empty() => {
                    let at = draws.below(blocks.len());
                    let (block, before, old) = blocks[at];
                    // SAFETY: it was allocated with this layout, and the new size is above 0.
                    let moved = unsafe { lists.realloc(block, before, size) };
                    let after = Layout::from_size_align(size, before.align()).expect("a layout");
                    let kept = Layout::from_size_align(size.min(before.size()), 1).expect("a layout");
                    assert!(!moved.is_null() && holds((moved, kept, old)), "step {step}");
                    // SAFETY: it has this many bytes now.
                    unsafe { moved.write_bytes(byte, size) };
                    blocks[at] = (moved, after, byte);
                    grown += 1;
                }
                _ => {
                    // SAFETY: the size is above 0.
                    let block = unsafe { lists.alloc(layout) };
                    assert!(!block.is_null() && (block as usize).is_multiple_of(layout.align()), "step {step}");
                    // SAFETY: it has this many bytes.
                    unsafe { block.write_bytes(byte, size) };
                    blocks.push((block, layout, byte));
                }
            }
        }
        assert!(blocks.into_iter().all(holds));
        assert!(grown > 1000 && returned > 1000, "{grown} grown, {returned} returned");
    }
}
