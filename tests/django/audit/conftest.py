from __future__ import annotations

from tests.django.downloads.conftest import stand_in as stand_in
