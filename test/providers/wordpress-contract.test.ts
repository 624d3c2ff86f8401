import { describe, expect, it } from "vitest";
import { wordpressPages } from "../../src/providers/wordpress.ts";
import { type Contract, conforms } from "../contracts/check.ts";
import published from "../contracts/wordpress.json" with { type: "json" };
import type { Asked } from "../wordpress/server.ts";
import { pageOf, siteOf } from "../wordpress/site.ts";
import { scripted } from "./embedded.ts";

const contract = published as unknown as Contract;
const { created } = published;
const options = { key: "k" };
const authorization = `Basic ${btoa("editor:abcd EFGH 1234")}`;

/** Arguments as WordPress reads them from a URL: lists separated by commas, booleans by their names; `_fields` is valid on every route. */
function argumentsOf({ query: { _fields, ...query } }: Asked): Record<string, unknown> {
  const lists = ["slug", "status"];
  return Object.fromEntries(
    Object.entries(query).map(([name, value]) => [
      name,
      lists.includes(name) ? value.split(",") : name === "force" ? value === "true" : value,
    ]),
  );
}

describe("The WordPress connector and WordPress's published schema", () => {
  it("every request of the WordPress connector is described by WordPress's schema", async () => {
    const site = siteOf("contract");
    await site.pages.put(pageOf("tea-1a2b3c"), options);
    await site.pages.put(pageOf("tea-1a2b3c"), options);
    await site.pages.remove(pageOf("tea-1a2b3c"), options);
    await site.behave({ noTrash: true });
    await site.pages.put(pageOf("oolong-1a2b3c"), options);
    await site.pages.remove(pageOf("oolong-1a2b3c"), options);

    const asked = await site.asked();
    expect(asked.map(({ method, route }) => `${method} ${route.replace("/wp/v2/posts", "").replace(/\d+/, "{id}")}`)).toEqual([
      ...["GET ", "POST ", "GET ", "POST /{id}", "GET ", "DELETE /{id}"],
      ...["GET ", "POST ", "GET ", "DELETE /{id}", "DELETE /{id}"],
    ]);
    for (const one of asked) {
      const wrong = {
        GET: () => conforms(contract, "List", argumentsOf(one)),
        POST: () => [...conforms(contract, "Write", one.body), ...Object.keys(argumentsOf(one))],
        DELETE: () => conforms(contract, "Delete", argumentsOf(one)),
      }[one.method];
      expect(wrong?.(), `${one.method} ${one.route}`).toEqual([]);
    }
  });

  it("the check against WordPress's schema reports a title that is a number, an unknown status, and an argument of no route", () => {
    expect(conforms(contract, "Write", { title: 5 })).not.toEqual([]);
    expect(conforms(contract, "Write", { status: "trash" })).not.toEqual([]);
    expect(conforms(contract, "List", { status: ["published"] })).not.toEqual([]);
    expect(conforms(contract, "List", { name: "tea" })).not.toEqual([]);
    expect(conforms(contract, "Post", { ...created, id: "4" })).not.toEqual([]);
  });

  it("the posts of the tests' WordPress conform to the schema, as those of a real WordPress do", async () => {
    const site = siteOf("contract-answers");
    await site.pages.put(pageOf("tea-1a2b3c"), options);
    const list = await fetch(`${site.url}/?rest_route=/wp/v2/posts`, { headers: { authorization } });
    const [post] = await list.json<unknown[]>();
    expect(conforms(contract, "Post", post)).toEqual([]);
    expect(conforms(contract, "Post", created)).toEqual([]);
  });

  it("a response of a real WordPress is read, including the post's URL", async () => {
    const real = scripted(Response.json([]), Response.json(created, { status: 201 }));
    const { url } = await wordpressPages(real, "wordpress blog.example.com", "admin").put(pageOf(created.slug), options);
    expect(url).toBe(created.link);
  });
});
