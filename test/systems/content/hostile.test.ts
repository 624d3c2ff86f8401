import { describe, expect, it } from "vitest";
import { callerWith, send } from "../../api/client.ts";
import { draft, pathOf, publish } from "./article.ts";
import { child, parseXml } from "./xml.ts";

/** Titles and first lines with markup; and the visible part of one, if that is shorter. */
const TEXTS = [
  ["a script", `<script>alert(1)</script>`],
  ["an attribute's end", `" onmouseover="alert(1)" x="`],
  ["an end of a single quote", `' onmouseover='alert(1)' x='`],
  ["entities", `Fish &amp; chips &lt;b&gt; &#x3C;i&#x3E; &bogus;`],
  ["an end of a CDATA section", `]]><item><title>forged</title></item><![CDATA[`],
  ["a comment's end", `--><script>alert(1)</script><!--`],
  ["the title's end", `</title></h1></article><h1>forged`],
  ["text from right to left", `שלום עולם: \u202Eevil\u202C العربية`],
  ["emoji of several parts", `👩‍👩‍👧‍👦 family 🏳️‍🌈 and 🇺🇳`],
  ["characters that no document may contain", `tab\u0000le \u0008of\u001b[31m \ufffe\uffff contents`, "table of[31m  contents"],
] as readonly [name: string, text: string, seen?: string][];

describe.each(TEXTS)("%s in an article's text", (_, text, seen = text) => {
  it("markup in an article remains text in its page, in the index and in the feed", async () => {
    const caller = await callerWith();
    const article = await publish(
      caller,
      await draft(caller, { text: `# ${text}\n\n${text} [link](javascript:alert(1))\n\n<img src=x onerror=alert(1)>` }),
    );

    const page = await readHtml((await send(pathOf(article.url))).body);
    const index = await readHtml((await send(`/pages/${caller.tenantId}/acme/`)).body);
    for (const { elements, attributes } of [page, index]) {
      expect(elements).not.toContain("script");
      expect(elements).not.toContain("item");
      expect(attributes.filter(({ name }) => name.startsWith("on"))).toEqual([]);
      expect(attributes.filter(({ value }) => /^\s*javascript:/i.test(value))).toEqual([]);
    }
    expect(page.texts.h1).toEqual([seen]);
    expect(page.texts.title).toEqual([`${seen} · acme`]);
    expect(page.attributes).toContainEqual({ element: "meta", name: "content", value: seen });
    expect(index.texts.a).toContain(seen);

    const channel = child(parseXml((await send(`/pages/${caller.tenantId}/acme/feed.xml`)).body), "channel");
    const items = channel.children.filter(({ name }) => name === "item");
    expect(items).toHaveLength(1);
    for (const item of items) {
      expect(child(item, "title").text).toBe(seen);
      expect(child(item, "description").text).not.toBe("");
    }
  });
});

interface Seen {
  elements: string[];
  attributes: { element: string; name: string; value: string }[];
  /** The text directly inside each element, by the element's name. */
  texts: Record<string, string[]>;
}

/** A browser's parse of a document. */
async function readHtml(html: string): Promise<Seen> {
  const seen: Seen = { elements: [], attributes: [], texts: {} };
  const decoded = (text: string) => text.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&quot;", '"').replaceAll("&amp;", "&");
  const open: { name: string; text: string }[] = [];
  await new HTMLRewriter()
    .on("*", {
      element(element) {
        seen.elements.push(element.tagName);
        for (const [name, value] of element.attributes)
          seen.attributes.push({ element: element.tagName, name: name ?? "", value: decoded(value ?? "") });
        const one = { name: element.tagName, text: "" };
        if (["meta", "link", "img", "br"].includes(element.tagName)) return;
        open.push(one);
        element.onEndTag(() => {
          open.splice(open.lastIndexOf(one), 1);
          seen.texts[one.name] = [...(seen.texts[one.name] ?? []), decoded(one.text)];
        });
      },
      text({ text }) {
        const one = open.at(-1);
        if (one) one.text += text;
      },
    })
    .transform(new Response(html))
    .arrayBuffer();
  return seen;
}
