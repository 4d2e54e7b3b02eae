//! Where a script is, in a call of which that is asked: a call that runs out of fuel ends where nothing can be said any more.

use std::cell::Cell;

use sandtable_policy::host;
use starlark::codemap::FileSpanRef;
use starlark::eval::Evaluator;

thread_local! {
    /// Statements of the call so far, and the one at which the next line is due; none: nothing is asked of this call.
    static AT: Cell<Option<[u64; 2]>> = const { Cell::new(None) };
}

/// From here on lines are written, or none are.
pub(crate) fn begin(is_asked: bool) {
    AT.set(is_asked.then_some([0, 0]));
}

/// Has an evaluator tell of each statement. What it then evaluates takes more time.
pub(crate) fn follow<'a, 'e>(eval: &mut Evaluator<'_, 'a, 'e>) {
    let each: &dyn for<'v> Fn(FileSpanRef<'_>, &mut Evaluator<'v, 'a, 'e>) = &step;
    eval.before_stmt_for_dap(each.into());
}

/// Writes where a statement is: of each of the first, and then of one of so many that the last line is near the end.
fn step(at: FileSpanRef<'_>, _: &mut Evaluator<'_, '_, '_>) {
    let Some([count, due]) = AT.get() else { return };
    let next = if count < due { due } else { count + 1 + count / 32 };
    AT.set(Some([count + 1, next]));
    if count >= due {
        host::warn(&place(at));
    }
}

fn place(at: FileSpanRef<'_>) -> String {
    let at = at.to_file_span();
    let begin = at.resolve_span().begin;
    let code = at.source_span().lines().next().unwrap_or_default().trim();
    format!("line {}, column {}, at `{code}`", begin.line + 1, begin.column + 1)
}
