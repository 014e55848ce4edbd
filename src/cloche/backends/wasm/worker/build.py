"""``python -I -S build.py WIT SOURCE TARGET PATH...``: make a component of the guest's source."""

from __future__ import annotations

import sys


def main(arguments: list[str]) -> None:
    """Leaves the component at its target."""
    wit, source, target, *path = arguments
    sys.path += path
    import componentize_py

    componentize_py.componentize(
        wit_path=[wit],
        worlds=["session"],
        features=[],
        all_features=False,
        world_module=None,
        python_path=[source],
        module_worlds=[],
        app_name="component",
        output_path=target,
        stub_wasi=False,
        import_interface_names=[],
        export_interface_names=[],
        full_names=False,
        intersect_world=None,
    )


if __name__ == "__main__":
    sys.path.pop(0)  # the folder of this file: its names are not for everybody
    main(sys.argv[1:])
