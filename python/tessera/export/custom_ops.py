"""The library to which operators for exported programs alone belong (`export::...`)."""

from tessera.library import Library

lib = Library("export", "FRAGMENT")
