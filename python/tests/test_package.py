"""What the package does: every public name once. Run by `cargo test`, which says where the command is."""

import gc
import os
import pickle
import shutil
import signal
import tempfile
import threading
import unittest
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import sandtable_sched as st

SPEC = {
    "title": "t",
    "fleet": {"Model": {"nodes": 2, "gpus": 4, "kind": "T4"}},
    "workload": {"Generate": {"jobs": 60, "arrivals": {"Poisson": {"load": 1.1}}}},
    "policies": [{"name": "fifo"}, {"name": "sjf"}, st.script("def key(job, c): return job.gpus", "smallest")],
    "predictors": {"remaining": "Oracle"},
    "seeds": {"Range": [0, 2]},
}


class Package(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        os.chdir(self.folder.name)
        self.addCleanup(self.folder.cleanup)
        self.addCleanup(os.chdir, "/")

    def test_a_spec_runs_and_its_results_are_tables(self) -> None:
        results = st.run(SPEC, store="store", set={"workload.jobs": 50})
        self.assertEqual(repr(results), "<6 cells of 3 policies>")
        summary = results.summary("rows")
        self.assertEqual([row["policy"] for row in summary], ["fifo", "fifo", "sjf", "sjf", "smallest", "smallest"])
        self.assertTrue(all(row["jct_mean_s"] > 0 for row in summary))
        self.assertEqual(len(results.jobs("rows")), 6 * 50)
        self.assertGreaterEqual(len(results.timeline("rows")), 6 * 50)
        found = {row["metric"]: row for row in results.compare("fifo", "sjf", "rows")}
        self.assertIn("jct_mean_s", found)
        page = results._repr_html_()
        self.assertTrue(page.startswith("<table>") and "</svg>" in page and "smallest" in page)
        from sandtable_sched._results import _short
        numbers = [_short(number) for number in (15059.4, 526.26, 0.8673, 1.4e-05, 0.0)]
        self.assertEqual(numbers, ["15,059", "526.3", "0.8673", "0.000014", "0"])
        self.assertGreater(results.report("page.html").stat().st_size, 10_000)
        self.assertEqual({cell["status"] for cell in results.cells}, {"cached"})

    def test_files_sweeps_and_plans(self) -> None:
        spec = 'Experiment(title: "t", fleet: Model(nodes: 1, gpus: 4, kind: "T4"), workload: Generate(jobs: 5), policies: [Policy(name: "fifo")])'
        Path("spec.ron").write_text(spec)
        sweep = {"fleet.nodes": [1, 2]}
        self.assertEqual(len(st.plan("spec.ron", sweep=sweep)), 2)
        load = {"workload.arrivals": st.Ron("Poisson(load: 0.5)"), "seeds": st.Ron("Range(0, 2)")}
        self.assertEqual(len(st.run(Path("spec.ron"), set=load, sweep=sweep, store="store").cells), 4)

    def test_mistakes_are_errors_with_their_place(self) -> None:
        with self.assertRaises(st.SandtableError) as found:
            st.run({**SPEC, "fleet": {"Model": {"nodes": "two", "gpus": 4, "kind": "T4"}}}, store="store")
        self.assertEqual(found.exception.code, 2)
        self.assertIn("fleet.Model.nodes", str(found.exception))
        with self.assertRaises(st.PolicyFailed) as failed:
            st.run({**SPEC, "policies": [st.script("def key(job, c): return job.nope")]}, store="store")
        self.assertIn("line 1, column 25", str(failed.exception))
        with self.assertRaises(ValueError):
            st.run(SPEC, store="store").summary("table")

    def test_errors_say_why_and_nothing_else(self) -> None:
        broken = st.script("def key(job, c): return job.nonsense", "broken")
        with self.assertRaises(st.PolicyFailed) as failed:
            st.run({**SPEC, "policies": [broken]}, store="store")
        said = str(failed.exception)
        self.assertIn("nonsense", said)
        for of_every_run in ("semantics: ", "cached, ", "executed; results"):
            self.assertNotIn(of_every_run, said)
            self.assertIn(of_every_run, failed.exception.stderr)
        with self.assertWarnsRegex(st.SandtableWarning, "without a `test` it is not cut"):
            st.run({**SPEC, "policies": [{"name": "fifo"}]}, store="store", test=True)
        for asked, why in (
            ({"sweep": {"policies.fifo.with.backfill": "skip"}}, "sweep: expected a list of values"),
            ({"sweep": {"workload.jobs": 50}}, "sweep: expected a list of values"),
            ({"set": {"workload.jobs": object()}}, "workload.jobs: expected what JSON has"),
        ):
            with self.assertRaisesRegex(TypeError, why):
                st.plan(SPEC, **asked)
        with self.assertRaisesRegex(ValueError, "only: no policy is named"):
            st.run(SPEC, only=[], store="store")
        self.assertEqual(len(st.plan(SPEC, set={"workload.jobs": 10}, policies=Path("."))), 6)

    def test_texts_are_texts_in_parameters(self) -> None:
        shown = st.script("def key(job, c): fail(str(params))", "shown", params={"mode": 1})
        spec = {**SPEC, "policies": [shown, {"name": "fifo", "with": {"depth": 50}}], "seeds": {"List": [0]}}
        for value, said in [("fast", "\"fast\""), ("12", "\"12\""), ("x(1)", "\"x(1)\""), (12, "12"), (True, "True")]:
            with self.assertRaises(st.PolicyFailed) as failed:
                st.run(spec, set={"policies.shown.with.params.mode": value}, only="shown", store="store")
            self.assertIn(f'{{"mode": {said}}}', str(failed.exception))
        skips = st.run(spec, set={"policies.fifo.with.backfill": "skip"}, only="fifo", store="store")
        self.assertEqual(len(skips.summary("rows")), 1)

    def test_where_no_job_completes_there_is_a_table_and_no_figure(self) -> None:
        idle = st.script("def decide(waiting, running, nodes, c): return []", "idle")
        page = st.run({**SPEC, "policies": [idle]}, store="store")._repr_html_()
        self.assertTrue("idle" in page and "<svg" not in page)

    def test_tables_of_results_that_are_gone_are_refused(self) -> None:
        results = st.run(SPEC, store="store")
        shutil.rmtree("store")
        with self.assertRaisesRegex(st.SandtableError, "6 of 6 results are no longer in the store"):
            results.jobs("rows")

    def test_what_is_dropped_or_given_up_leaves_no_process(self) -> None:
        scorer = st.Scorer(SPEC)
        scorer.score(policy="fifo")
        process = scorer._process
        assert process is not None
        del scorer
        gc.collect()
        self.assertIsNotNone(process.popen.poll())

        def given_up(*_: object) -> None:
            raise TimeoutError

        children = Path(f"/proc/self/task/{os.getpid()}/children")
        before = signal.signal(signal.SIGALRM, given_up)
        signal.setitimer(signal.ITIMER_REAL, 0.5)
        try:
            with self.assertRaises(TimeoutError):
                # Minutes of work.
                st.run(SPEC, set={"workload.jobs": 20000}, sweep={"seeds": [st.Ron("Range(0, 500)")]}, progress=True, store="store")
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        self.assertEqual(children.read_text().split(), [])

    def test_answers_have_the_ids_of_their_requests(self) -> None:
        answers = st.score(SPEC, [{"policy": "sjf"}, {"policy": "fifo", "id": "mine"}])
        self.assertEqual([answer["id"] for answer in answers], [0, "mine"])

    def test_errors_travel_between_processes(self) -> None:
        error = pickle.loads(pickle.dumps(st.PolicyFailed(3, "why")))
        self.assertEqual((type(error), error.code, str(error)), (st.PolicyFailed, 3, "why"))
        self.assertIn("signal 9", str(st.SandtableError(-9, "said before")))
        before = os.environ.get("SANDTABLE")
        os.environ["SANDTABLE"] = "/nowhere/sandtable"
        try:
            with self.assertRaisesRegex(st.SandtableError, "no command is there"):
                st.plan(SPEC)
        finally:
            os.environ.pop("SANDTABLE")
            if before is not None:
                os.environ["SANDTABLE"] = before

    def test_results_are_those_of_what_ran(self) -> None:
        Path("mine.star").write_text("def key(job, c): return job.gpus")
        spec = {**SPEC, "policies": [{"name": "fifo"}, {"name": "./mine.star", "label": "mine"}]}
        first = st.run(spec, store="store")
        jct = [row["jct_mean_s"] for row in first.summary("rows")]
        Path("mine.star").write_text("def key(job, c): return -job.gpus")
        second = st.run(spec, store="store")
        self.assertNotEqual([row["jct_mean_s"] for row in second.summary("rows")], jct)
        self.assertEqual([row["jct_mean_s"] for row in first.summary("rows")], jct)
        with self.assertRaisesRegex(st.SandtableError, "is not as it was when this ran"):
            first.jobs("rows")
        # Wherever the program goes.
        os.chdir("/")
        self.assertEqual(len(second.jobs("rows")), 4 * 60)

    def test_texts_are_texts(self) -> None:
        sources = ["def key(job, c):\n    return job.submitted, 3", 'def key(job, c):\n    """a, b"""\n    return -job.gpus, 2']
        swept = st.run({**SPEC, "title": "(x"}, only="smallest", sweep={"policies.smallest.with.source": sources}, store="store")
        self.assertEqual(len(swept.cells), 4)
        poisson = {"workload.arrivals": {"Poisson": {"load": 0.9}}, "reveal": ["Progress"]}
        self.assertEqual(len(st.plan(SPEC, set=poisson, store="store")), 6)
        self.assertEqual(len(st.plan(SPEC, set={"title": "a, [b", "predictors.remaining": "Oracle"}, store="store")), 6)

    def test_what_jobs_are_left_is_said(self) -> None:
        lazy = st.script("def decide(waiting, running, nodes, c):\n    return [start(job) for job in waiting if job.remaining < 600]", "lazy")
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            results = st.run({**SPEC, "policies": [{"name": "fifo"}, lazy]}, store="store")
            results.compare("fifo", "lazy", "rows")
        self.assertTrue(all(issubclass(one.category, st.SandtableWarning) for one in said), said)
        self.assertIn("never ended", str(said[-1].message))
        self.assertRegex(results._repr_html_(), r"lazy\*</td>.*<p>\* lazy: of 120 jobs \d+ never ended; its means")

    def test_what_others_did_is_kept_where_one_fails(self) -> None:
        broken = st.script("def key(job, c): return job.nope", "broken")
        with self.assertRaises(st.PolicyFailed) as failed:
            st.run({**SPEC, "policies": [{"name": "fifo"}, broken]}, store="store")
        results = failed.exception.results
        assert results is not None
        self.assertEqual([row["policy"] for row in results.summary("rows")], ["fifo", "fifo"])
        self.assertIn("2 of 4 cells have no result", results._repr_html_())

    def test_answers_belong_to_their_requests(self) -> None:
        def source(sign: str) -> str:
            return f"def key(job, c): return {sign}job.gpus"

        with st.Scorer(SPEC, store="store", threads=1) as scorer:
            truth = {sign: scorer.score(source=source(sign))["score"] for sign in ("", "-")}
            self.assertEqual(len(set(truth.values())), 2)
            # Given up after the first, after one that is no JSON, and by an interrupt.
            for _ in scorer.scores([{"source": source("")}] * 4):
                break
            self.assertEqual(scorer.score(source=source("-"))["score"], truth["-"])
            with self.assertRaises(ValueError):
                list(scorer.scores([{"source": source("")}, {"policy": "fifo", "with": {"x": float("nan")}}]))
            self.assertFalse(scorer.score(policy="nonexistent")["ok"])

            def interrupted() -> None:
                raise KeyboardInterrupt

            assert scorer._process is not None
            given_up = scorer._process
            given_up._changed.wait = interrupted  # type: ignore[assignment, method-assign]
            with self.assertRaises(KeyboardInterrupt):
                scorer.score(source=source(""))
            self.assertIsNotNone(given_up.popen.poll())
            self.assertEqual(scorer.score(source=source("-"))["score"], truth["-"])
            # Two loops at once.
            first, second = scorer.scores([{"source": source("")}] * 3), scorer.scores([{"source": source("-")}] * 3)
            pairs = [(a["score"], b["score"]) for a, b in zip(first, second)]
            self.assertEqual(pairs, [(truth[""], truth["-"])] * 3)
            # Four threads, each of which gets its own answers.
            def ask(sign: str) -> list[float]:
                return [scorer.score(source=source(sign))["score"] for _ in range(8)]

            with ThreadPoolExecutor(4) as threads:
                for sign, scores in zip(["", "-"] * 2, threads.map(ask, ["", "-"] * 2)):
                    self.assertEqual(scores, [truth[sign]] * 8)
            # More than the command and its pipes hold: it is read while threads write.
            def many(sign: str) -> "set[float]":
                long = [{"source": source(sign) + "\n#" + 5000 * "x"}] * 40
                return {answer["score"] for answer in scorer.scores(long)}

            with ThreadPoolExecutor(6) as threads:
                self.assertEqual(list(threads.map(many, ["", "-"] * 3)), [{truth[""]}, {truth["-"]}] * 3)
            # A loop over requests that ends in an error, again and again.
            def failing() -> Any:
                yield from [{"source": source("") + "\n#" + 5000 * "x"}] * 31
                raise OSError

            for _ in range(4):
                with self.assertRaises(OSError):
                    list(scorer.scores(failing()))
            # Whatever can't be read in a request, it has an answer.
            deep: Any = []
            for _ in range(200):
                deep = [deep]
            for wrong in ({"source": "# \ud83d"}, {"jobs": 10**400}, {"policy": "fifo", "with": {"x": deep}}):
                answer = scorer.score(**wrong)
                self.assertEqual((answer["ok"], answer["fault"]), (False, "request"), answer)
            kept = scorer.score(policy="fifo", keep=True)
            self.assertTrue(kept["ok"] and list(Path("store/cells").rglob(kept["cells"][0])), kept)
        with self.assertRaisesRegex(st.SandtableError, "was closed before this was asked"):
            scorer.score(policy="fifo")

    def test_a_scorer_that_is_closed_says_so_to_those_who_wait(self) -> None:
        scorer = st.Scorer(SPEC, store="store", threads=1)
        begun = threading.Event()

        def ask(_: int) -> str:
            try:
                while True:
                    scorer.score(policy="fifo")
                    begun.set()
            except st.SandtableError as error:
                return str(error)

        with ThreadPoolExecutor(3) as threads:
            ended = threads.map(ask, range(3))
            begun.wait()
            scorer.close()
            for said in ended:
                self.assertRegex(said, "the scorer was (ended while|closed before) this was asked")
        with self.assertRaises(UnicodeEncodeError):
            next(st.Scorer(SPEC, store="store").scores([{"\ud83d": 1}]))

    def test_candidates_are_scored_by_one_process(self) -> None:
        spec = 'Experiment(title: "t", fleet: Model(nodes: 1, gpus: 4, kind: "T4"), workload: Generate(jobs: 80, arrivals: AtOnce), policies: [Policy(name: "fifo")], seeds: Range(0, 2))'
        Path("spec.ron").write_text(spec)
        requests = [{"source": f"def key(job, c): return {sign}job.gpus"} for sign in ["", "-"] * 30]
        answers = st.score("spec.ron", requests, baseline="fifo")
        self.assertEqual([answer["id"] for answer in answers], list(range(60)))
        self.assertEqual(len({answer["score"] for answer in answers}), 2)
        with st.Scorer("spec.ron") as scorer:
            self.assertTrue(scorer.score(policy="fifo", with_={"backfill": "skip"})["ok"])
            self.assertFalse(scorer.score(policy="fifi")["ok"])
        with self.assertRaises(st.SandtableError), st.Scorer("none.ron") as scorer:
            scorer.score(policy="fifo")

    def test_a_cluster_is_asked(self) -> None:
        node = '{"name": "a", "kind": "A100-SXM4-80GB", "gpus": 4, "state": "up"}'
        job = '{"id": "j", "state": "waiting", "gpus": 2, "submitted_s": -60, "limit_s": 3600}'
        Path("now.json").write_text(
            '{"sandtable": "state@1", "at": "2026-11-20T01:05:32Z", "source": {"kind": "other"}, "queues": [], "reservations": [],'
            f' "unknown": [], "ignored": [], "nodes": [{node}], "jobs": [{job}]}}'
        )
        rows = st.what_if("now.json", "--policy", "fifo", "--store", "store", frame="rows")
        self.assertEqual([(row["job"], row["start_p50_s"]) for row in rows], [("j", 0.0)])


if __name__ == "__main__":
    unittest.main()
