"""Take docs/images/look.png again: the commands of README's table, and the first screen of their page.

python tools/look_picture.py     # needs playwright and Chromium; prints what the command says, for README
"""

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    """Run the commands in a folder of their own, and photograph the page."""
    (commands,) = re.findall(
        r"```sh\n([^`]*maskevidence look wine\.csv)\n```", (ROOT / "README.md").read_text()
    )
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["bash", "-ec", commands], cwd=folder, check=True)
        with sync_playwright() as started:
            browser = started.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": 960, "height": 1120})
            page.goto((Path(folder) / "wine-look" / "index.html").as_uri())
            page.screenshot(path=ROOT / "docs" / "images" / "look.png")
            browser.close()


if __name__ == "__main__":
    main()
