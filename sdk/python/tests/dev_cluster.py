"""`pintle.testing.dev` with a real `pintle`: run by the long tier, as `python -m unittest tests.dev_cluster`. PLUGIN names a component."""

import os
import unittest
from pathlib import Path
from unittest import mock

from pintle.testing.dev import ApiError, Dev

PLUGIN = os.environ["PLUGIN"]
FLAGS = ["--controllers=namespace", "--nodes=0"]


class DevTest(unittest.TestCase):
    def test_a_controller_runs_on_a_cluster_of_the_test(self) -> None:
        with Dev(PLUGIN, flags=FLAGS) as cluster:
            cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
            account = cluster.wait("v1/ServiceAccount", "default", "team")
            assert account is not None
            self.assertEqual(account["metadata"]["namespace"], "team")
            cluster.delete("v1/Namespace", "team")
            cluster.wait("v1/Namespace", "team", until=lambda object: object is None)
            self.assertIsNone(cluster.get("v1/ServiceAccount", "default", "team"))
            self.assertIsNone(cluster.get("v1/Namespace", "team"))
            with self.assertRaisesRegex(ApiError, "404 NotFound: the API server does not serve v1/Team"):
                cluster.get("v1/Team", "a")
            with self.assertRaisesRegex(ApiError, '^422 Invalid: Pod "p" is invalid: spec.containers: Required value'):
                cluster.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"}})
            with self.assertRaisesRegex(TimeoutError, "is not as expected after 0.1 s: null"):
                cluster.wait("v1/Namespace", "team", timeout=0.1)
            kubeconfig, process = cluster.kubeconfig, cluster.ready["pid"]
            self.assertTrue(kubeconfig.exists())
        self.assertFalse(kubeconfig.exists())
        with self.assertRaises(ProcessLookupError):
            os.kill(process, 0)

    def test_what_does_not_run_is_an_error_with_its_reason(self) -> None:
        with self.assertRaisesRegex(RuntimeError, "a plugin does not run: .*no version runs yet"):
            Dev(__file__, flags=FLAGS)
        with self.assertRaisesRegex(RuntimeError, "(?s)`pintle dev` ended:.*unexpected argument '--nonsense'"):
            Dev(flags=["--nonsense"])
        with mock.patch.dict(os.environ, {"PINTLE_BIN": str(Path(__file__).parent / "nothing")}), self.assertRaisesRegex(RuntimeError, "cannot start"):
            Dev()
        with mock.patch.dict(os.environ, {"PATH": ""}):
            del os.environ["PINTLE_BIN"]
            with self.assertRaisesRegex(RuntimeError, "name the program by the environment variable PINTLE_BIN"):
                Dev()


if __name__ == "__main__":
    unittest.main()
