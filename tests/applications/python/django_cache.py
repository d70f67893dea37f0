"""Django's cache framework on its own Redis backend, and sessions kept in that cache."""

import os
import time

import django
from django.conf import settings

settings.configure(
    CACHES={
        "default": {
            "BACKEND": "django.core.cache.backends.redis.RedisCache",
            "LOCATION": f"redis://127.0.0.1:{os.environ['PORT']}/1",
            "KEY_PREFIX": "site",
        }
    },
    SESSION_ENGINE="django.contrib.sessions.backends.cache",
    SECRET_KEY="for this test alone",
)
django.setup()

from django.contrib.sessions.backends.cache import SessionStore  # noqa: E402, the settings come first
from django.core.cache import cache  # noqa: E402


def check(name, found, expected):
    assert found == expected, f"{name}: {found!r}, expected {expected!r}"
    print(f"django: {name}")


def main():
    cache.clear()
    check("nothing", cache.get("page", "default"), "default")
    cache.set("page", {"title": "home", "tags": ["a", "b"]}, timeout=30)
    check("an object", cache.get("page"), {"title": "home", "tags": ["a", "b"]})
    check("add what is there", cache.add("page", 1), False)
    check("add what is not", cache.add("counter", 1), True)
    check("incr", [cache.incr("counter"), cache.incr("counter", 10), cache.decr("counter", 2)], [2, 12, 10])
    cache.set_many({f"key{n}": n for n in range(100)}, timeout=30)
    check("get_many", cache.get_many([f"key{n}" for n in range(0, 200, 50)]), {"key0": 0, "key50": 50})
    check("get_or_set", cache.get_or_set("made", lambda: "once", 30), "once")
    check("touch", [cache.touch("made", 1), cache.touch("nowhere", 1)], [True, False])
    cache.delete_many(["key0", "key50"])
    check("delete_many", cache.get_many(["key0", "key50", "key99"]), {"key99": 99})
    check("version", [cache.set("v", 1, version=2), cache.get("v"), cache.get("v", version=2)], [None, None, 1])
    cache.set("brief", "x", timeout=1)
    time.sleep(1.2)
    check("expiry", [cache.get("brief"), cache.get("made")], [None, None])
    session = SessionStore()
    session["user"] = 42
    session.save()
    again = SessionStore(session_key=session.session_key)
    check("a session", again["user"], 42)
    again.flush()
    check("a session that ended", SessionStore(session_key=session.session_key).get("user"), None)
    cache.clear()
    check("clear", cache.get("key99"), None)


if __name__ == "__main__":
    main()
