"""Command lines that run a file of the workspace, in every spelling, and the file that each of them runs."""

from __future__ import annotations

import json
from pathlib import Path

SCRIPT = "echo first >> ran\n"


def lay_out(root: Path) -> None:
    """Create the files that the lines name."""
    scripts = ("build.sh", "build.bash", "env.sh", "my script.sh", "-dash.sh", "sub/build.sh", "sub/deep/build.sh")
    files = {
        **dict.fromkeys(scripts, SCRIPT),
        "list": "build.sh\n",
        "tool.py": "open('ran', 'a').write('first')\n",
        "module/__main__.py": "open('ran', 'a').write('first')\n",
        "module/inner/part.py": "",
        "single.py": "open('ran', 'a').write('first')\n",
        "pkg/setup.py": "from setuptools import setup\nsetup(name='pkg', version='1')\n",
        "pkg/pyproject.toml": "",
        "pkg/src/part.py": "",
        "pkg/package.json": "{}",
        "pkg/.npmrc": "",
        "pkg/Makefile": "all:\n\techo first >> ran\n",
        "requirements.txt": "numpy>=1.0\n-e ./pkg\n-r more/others.txt\n",
        "more/others.txt": "requests\n",
        "Makefile": "all:\n\techo first >> ran\n",
        "rules.mk": "all:\n\techo first >> ran\n",
        "package.json": json.dumps({"scripts": {"preinstall": "node scripts/setup.js", "site": "sh sub/build.sh"}}),
        "package-lock.json": "{}",
        "scripts/setup.js": "",
        "venv/pyvenv.cfg": "",
        "venv/bin/pip": "#!/bin/sh\necho first >> ran\n",
        "venv/bin/activate": "",
        "venv/lib/pip.py": "",
        "wheels/pkg-1.whl": "",
    }
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    (root / "venv/bin/pip").chmod(0o755)
    (root / "build.sh").chmod(0o755)
    (root / "link.sh").symlink_to("build.sh")
    (root / "linked").symlink_to("pkg")
    (root / "pkg/src/linked.py").symlink_to("../../single.py")


SHELL_LINES = {
    # relative and absolute names
    "sh build.sh": "build.sh",
    "./build.sh": "build.sh",
    "sh ./build.sh": "build.sh",
    "sh ././sub/../build.sh": "build.sh",
    "sh ROOT/build.sh": "build.sh",
    "ROOT/build.sh": "build.sh",
    "sh ROOT/sub/../build.sh": "build.sh",
    "sh ROOT//./build.sh": "build.sh",
    "sh ../NAME/build.sh": "build.sh",
    "sh ROOT/../NAME/build.sh": "build.sh",
    "sh ~/build.sh": "build.sh",
    'sh "$HOME/build.sh"': "build.sh",
    "sh ${HOME}/build.sh": "build.sh",
    "sh $PWD/build.sh": "build.sh",
    "${PWD}/build.sh": "build.sh",
    'sh "$(pwd)/build.sh"': "build.sh",
    "sh `pwd`/build.sh": "build.sh",
    "sh /proc/self/cwd/build.sh": "build.sh",
    "sh /proc/self/rootROOT/build.sh": "build.sh",
    "sh link.sh": "build.sh",
    # quotes
    "sh 'build.sh'": "build.sh",
    'sh bu"il"d.s\\h': "build.sh",
    "sh $'build\\x2esh'": "build.sh",
    'sh $"build.sh"': "build.sh",
    "sh 'my script.sh'": "my script.sh",
    "sh my\\ script.sh": "my script.sh",
    "sh -- -dash.sh": "-dash.sh",
    "sh bu\\\nild.sh": "build.sh",
    # redirections
    "bash < build.sh": "build.sh",
    "bash <build.sh >out": "build.sh",
    "< build.sh bash": "build.sh",
    "bash 0< build.sh": "build.sh",
    "cat build.sh | sh": "build.sh",
    "bash <<< 'sh build.sh'": "build.sh",
    "bash <<EOF\nsh build.sh\nEOF": "build.sh",
    "bash <(cat build.sh)": "build.sh",
    # programs that run programs
    "sh -c 'sh build.sh'": "build.sh",
    'bash -c "sh build.sh"': "build.sh",
    "bash -c 'bash -c \"sh my\\ script.sh\"'": "my script.sh",
    "sh -c '. ./env.sh'": "env.sh",
    "env sh build.sh": "build.sh",
    "env -i A=b sh build.sh": "build.sh",
    "env -C sub sh build.sh": "sub/build.sh",
    "env -C sub sh ../build.sh": "build.sh",
    "eval sh build.sh": "build.sh",
    "eval 'sh build.sh'": "build.sh",
    "timeout 60 nice sh build.sh": "build.sh",
    "echo build.sh | xargs sh": "build.sh",
    "xargs sh < list": "build.sh",
    "find . -maxdepth 1 -name build.sh -exec sh {} \\;": "build.sh",
    "find -name build.bash -exec sh {} +": "build.bash",
    "exec sh build.sh": "build.sh",
    ". ./env.sh": "env.sh",
    "source env.sh": "env.sh",
    "trap 'sh build.sh' EXIT": "build.sh",
    # globs and braces
    "sh buil?.sh": "build.sh",
    "sh b*.sh": "build.sh",
    "sh [b]uild.sh": "build.sh",
    "sh ROO[T]/build.s*": "build.sh",
    "sh s*/deep/*.sh": "sub/deep/build.sh",
    "bash build.{sh,nothing}": "build.sh",
    "sh {sub/,}build.sh": "build.sh",
    "sh {b..b}uild.sh": "build.sh",
    # variables
    "f=build.sh; sh $f": "build.sh",
    'f="my script.sh"; sh "$f"': "my script.sh",
    "d=sub n=build; sh $d/${n}.sh": "sub/build.sh",
    "export F=build.sh && sh $F": "build.sh",
    "f=build.sh sh -c 'sh $f'": "build.sh",
    "a='sh build.sh'; $a": "build.sh",
    "for f in build.sh env.sh; do sh $f; done": "build.sh",
    "set -- build.sh; sh $1": "build.sh",
    "sh ${NOTHING}build.sh": "build.sh",
    "sh $GIVEN": "build.sh",
    "x=build; sh ${x%q}.sh": "build.sh",
    # computed names
    "sh $(cat list)": "build.sh",
    "read f < list; sh $f": "build.sh",
    "printf 'sh bui%s' ld.sh > made; sh made": "build.sh",
    "printf 'bui%s' ld.sh | xargs sh": "build.sh",
    "python3 -c \"import os; os.system('sh bui' + 'ld.sh')\"": "build.sh",
    "python3 - <<EOF\nimport os; os.system('sh bui' + 'ld.sh')\nEOF": "build.sh",
    # folders
    "cd sub && sh build.sh": "sub/build.sh",
    "cd sub && sh ../build.sh": "build.sh",
    "cd sub; cd deep; sh build.sh": "sub/deep/build.sh",
    "cd nowhere; sh build.sh": "build.sh",
    "(cd sub; sh build.sh)": "sub/build.sh",
    "pushd sub && ./../build.sh": "build.sh",
    "sh -c 'cd sub && sh build.sh'": "sub/build.sh",
    "cd sub && sh $PWD/build.sh": "sub/build.sh",
    "PATH=$PWD:$PATH build.sh": "build.sh",
    # grammar
    "if true; then sh build.sh; fi": "build.sh",
    "true && { sh build.sh; }": "build.sh",
    "f() { sh build.sh; }; f": "build.sh",
    "false || sh build.sh": "build.sh",
    "sh build.sh &": "build.sh",
    "! sh build.sh": "build.sh",
    f"echo {' '.join(map(str, range(80)))}; sh build.sh": "build.sh",
    f"sh build.sh {'x' * 3_900}": "build.sh",
    # Python
    "python3 tool.py": "tool.py",
    "python3 -u ROOT/tool.py": "tool.py",
    "python3 -m module": "module/__main__.py",
    "python3 -um module.inner": "module/inner/part.py",
    "python3 -msingle": "single.py",
}
"""Lines, and the file whose content each of them runs; ROOT is the workspace, and NAME its last name."""

TOOL_LINES = {
    "pip install ./pkg": "pkg/setup.py",
    "pip install pkg/": "pkg/src/part.py",
    "pip install --no-deps ROOT/pkg": "pkg/setup.py",
    "pip install ./pkg[dev]": "pkg/setup.py",
    "pip install 'pkg @ file://ROOT/pkg'": "pkg/setup.py",
    "pip install -e ./pkg": "pkg/pyproject.toml",
    "pip install --editable=pkg": "pkg/src/part.py",
    "pip install .": "pkg/setup.py",
    "cd pkg && pip install .": "pkg/src/part.py",
    "cd pkg && pip install -e .": "single.py",
    "pip install ./linked": "pkg/setup.py",
    "pip install -r requirements.txt": "requirements.txt",
    "pip install -rrequirements.txt": "pkg/setup.py",
    "pip install --requirement=requirements.txt": "more/others.txt",
    "pip install wheels/*.whl": "wheels/pkg-1.whl",
    "venv/bin/pip install numpy": "venv/bin/pip",
    "./venv/bin/pip install pandas": "venv/lib/pip.py",
    ". venv/bin/activate && pip install numpy": "venv/lib/pip.py",
    "npm install": "package.json",
    "npm ci": "package-lock.json",
    "npm ci --foreground-scripts": "scripts/setup.js",
    "cd pkg && npm ci": "pkg/.npmrc",
    "npm run site": "sub/build.sh",
    "npm install ./pkg": "pkg/src/part.py",
    "npm --prefix pkg install": "pkg/package.json",
    "make": "Makefile",
    "make all": "Makefile",
    "make -C pkg": "pkg/Makefile",
    "make -f rules.mk": "rules.mk",
}
"""Lines of tools that run the code of a package or a folder, and a file that they read."""
