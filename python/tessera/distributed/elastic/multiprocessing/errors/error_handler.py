"""Writes error files."""

import faulthandler
import json
import os
import sys
import time
import traceback

__all__ = ["ErrorHandler"]


class ErrorHandler:
    """Writes exceptions into the file that TORCHELASTIC_ERROR_FILE names. Subclasses write more."""

    def _get_error_file_path(self):
        return os.environ.get("TORCHELASTIC_ERROR_FILE")

    def initialize(self):
        """Called before the main function: a crash will show where it was."""
        try:
            faulthandler.enable(all_threads=True)
        except Exception as error:  # there may be no standard error
            sys.stdout.write(f"crashes will not be shown: {error}\n")

    def record_exception(self, e):
        """Writes an exception with its traceback and the time."""
        path = self._get_error_file_path()
        if not path:
            return
        about = {
            "message": f"{type(e).__name__}: {e}",
            "extraInfo": {
                "py_callstack": "".join(traceback.format_exception(type(e), e, e.__traceback__)),
                "timestamp": str(int(time.time())),
            },
        }
        with open(path, "w") as file:
            json.dump({"message": about}, file)

    def override_error_code_in_rootcause_data(self, rootcause_error_file, rootcause_error, error_code=0):
        """Puts an exit code into what an error file holds.

        Args:
            rootcause_error_file: where it is from.
            rootcause_error: what it holds; changed in place.
            error_code: the exit code.
        """
        if "message" not in rootcause_error:
            sys.stderr.write(f"{rootcause_error_file} has no 'message'\n")
        elif isinstance(rootcause_error["message"], dict):
            rootcause_error["message"]["errorCode"] = error_code

    def dump_error_file(self, rootcause_error_file, error_code=0):
        """Copies a worker's error file into that of this process, which was its agent."""
        with open(rootcause_error_file) as file:
            about = json.load(file)
        if error_code:
            self.override_error_code_in_rootcause_data(rootcause_error_file, about, error_code)
        path = self._get_error_file_path()
        if path:
            with open(path, "w") as file:
                json.dump(about, file)
