"""The examples of docs/state.md run, from top to bottom, in one program."""

import subprocess
import sys

from tests.docs_pages import blocks

BLOCKS = blocks("docs/state.md")


def test_examples_run(tmp_path):
    assert {language for language, _ in BLOCKS} == {"python"}
    program = "\n\n".join(text for _, text in BLOCKS)
    (tmp_path / "example.py").write_text(program)
    done = subprocess.run(
        [sys.executable, "-W", "error", "example.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_importing_the_library_loads_no_spark_no_sidecar_no_pandas():
    program = (
        "import sys\n"
        "from idlestate import open_backend\n"
        "with open_backend('heap') as backend: backend.set_current_key('k')\n"
        "heavy = {'pyspark', 'pandas', 'rocksdict', 'idlestate.service', 'idlestate.pipeline'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True)
