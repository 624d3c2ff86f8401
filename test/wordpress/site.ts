import { inject } from "vitest";
import { type Page, type Pages, pages } from "../../src/providers/index.ts";
import type { Asked, Behaviour, StoredPost } from "./server.ts";

// Repeated here, because the server is a separate program that a Worker cannot import.
const USER = "editor";
const PASSWORD = "abcd EFGH 1234";

/** A separate site on the tests' WordPress, and the adapter for it. */
export function siteOf(name: string, { user = USER, password = PASSWORD } = {}) {
  const url = `${inject("wordpressUrl")}/${name}`;
  const control = async (init?: RequestInit) => (await fetch(`${url}/control`, init)).json<{ posts: StoredPost[]; asked: Asked[] }>();
  const vars = { PAGES_PROVIDER: "wordpress", PAGES_URL: url, PAGES_USER: user, PAGES_TOKEN: password };
  return {
    url,
    vars,
    pages: pages(vars) satisfies Pages,
    behave: (behaviour: Behaviour) => control({ method: "POST", body: JSON.stringify(behaviour) }),
    posts: async () => (await control()).posts,
    asked: async () => (await control()).asked,
  };
}

/** A page in the form that WordPress requires. */
export function pageOf(slug: string, content = "<p>Tea.</p>"): Page {
  return { path: `acme/${slug}`, slug, title: "Green tea & more", content, document: "" };
}
