import { runInNewContext } from "node:vm";
import { expect, it, vi } from "vitest";
import { LIVE_SCRIPT } from "../../src/engine/http/live.ts";

/** As much of a browser's element as the page uses: what is put into it is text or another element. */
class Element {
  hidden = false;
  value = "";
  children: (Element | string)[] = [];
  heard: Record<string, (event: { preventDefault(): void }) => void> = {};
  get textContent(): string {
    return this.children.map((child) => (typeof child === "string" ? child : child.textContent)).join("");
  }
  set textContent(text: string) {
    this.children = [text];
  }
  append(...children: (Element | string)[]): void {
    this.children.push(...children);
  }
  replaceChildren(...children: (Element | string)[]): void {
    this.children = children;
  }
  addEventListener(name: string, listen: (event: { preventDefault(): void }) => void): void {
    this.heard[name] = listen;
  }
}

const instance = {
  ...{ id: "i1", workflow: "place-order", subject: "<b>42</b>", status: "errored", updated_at: new Date().toISOString() },
  error: { step: "charge card", message: "The shop answered 500." },
};

/** The page in a browser whose API knows one token. */
function open(hash: string) {
  const elements: Record<string, Element> = { token: new Element() };
  const asked: string[] = [];
  const location = { hash, pathname: "/" };
  const replaced = vi.fn();
  runInNewContext(LIVE_SCRIPT, {
    document: {
      hidden: false,
      getElementById: (id: string) => {
        elements[id] ??= new Element();
        return elements[id];
      },
      createElement: () => new Element(),
    },
    location,
    history: { replaceState: replaced },
    setTimeout: () => undefined,
    fetch: async (path: string, { headers }: { headers: { authorization: string } }) => {
      asked.push(path);
      const ok = headers.authorization === "Bearer good";
      const items = path.startsWith("/v1/instances") && !path.includes("in_doubt") ? [instance] : [];
      return { ok, status: ok ? 200 : 401, json: async () => (ok ? { items } : { detail: "This token is not known." }) };
    },
  });
  const shown = (id: string) => elements[id]?.textContent ?? "";
  const give = (token: string) => {
    Object.assign(elements.token ?? {}, { value: token });
    elements.ask?.heard.submit?.({ preventDefault: () => undefined });
  };
  return { elements, asked, replaced, shown, give };
}

it("a token in the page's address is taken out of it, and shows what happens and what waits for a person, as text", async () => {
  const page = open("#token=good");
  expect(page.replaced).toHaveBeenCalledWith(null, "", "/");
  await vi.waitFor(() => expect(page.shown("counts")).toBe("Of the latest 1: 1 errored."));
  expect(page.shown("people")).toContain(
    "errored place-order · <b>42</b>“charge card”: The shop answered 500. · POST /v1/instances/i1/retry",
  );
  expect(page.shown("recent")).toMatch(/^errored place-order · <b>42<\/b> · \d s ago/);
  expect([page.elements.ask?.hidden, page.elements.now?.hidden]).toEqual([true, false]);
});

it("without a token nothing is asked, until one is given; one that is not known is said so, and forgotten", async () => {
  const page = open("");
  expect(page.asked).toEqual([]);
  expect([page.elements.live?.hidden, page.elements.ask?.hidden]).toEqual([false, false]);
  page.give("bad");
  await vi.waitFor(() => expect(page.shown("said")).toBe("This token is not known."));
  expect([page.elements.ask?.hidden, page.elements.now?.hidden, page.elements.token?.value]).toEqual([false, true, ""]);
});
