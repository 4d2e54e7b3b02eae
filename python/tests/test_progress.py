"""Progress as a bar; `tqdm` is needed."""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
import unittest

import sandtable_sched as st


class Progress(unittest.TestCase):
    def test_a_bar_counts_cells_and_errors_keep_their_words(self) -> None:
        before, folder = os.getcwd(), tempfile.TemporaryDirectory()
        os.chdir(folder.name)
        spec = {
            "title": "t", "fleet": {"Model": {"nodes": 1, "gpus": 4, "kind": "T4"}}, "workload": {"Generate": {"jobs": 9}},
            "policies": [{"name": "fifo"}], "seeds": {"Range": [0, 5]},
        }
        try:
            for text in (spec, {**spec, "policies": [st.script("def key(job, c): return job.nope")]}):
                shown = io.StringIO()
                with contextlib.redirect_stderr(shown):
                    if text is spec:
                        st.run(text, store="store", progress=True)
                    else:
                        with self.assertRaisesRegex(st.PolicyFailed, "nope"):
                            st.run(text, store="store", progress=True)
                self.assertIn("5/5", shown.getvalue())
        finally:
            os.chdir(before)
            folder.cleanup()


if __name__ == "__main__":
    unittest.main()
