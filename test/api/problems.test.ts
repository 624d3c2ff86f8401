import { describe, expect, it } from "vitest";
import { callerWith, expectProblem, send } from "./client.ts";

/** The entries of the page: each code with its status and sentences, as text. */
async function explained(): Promise<Map<string, string[]>> {
  const { body } = await send("/problems");
  const rows = [...body.matchAll(/<div id="(\w+)">(.*?)<\/div>/g)];
  const text = (cell: string) => cell.replaceAll(/<[^>]+>/g, "").trim();
  return new Map(
    rows.map(([, code = "", cells = ""]) => [code, [...cells.matchAll(/<dd>(.*?)<\/dd>/g)].map(([, cell = ""]) => text(cell))]),
  );
}

describe("GET /problems", () => {
  it("GET /problems explains every code of the API without a token: its status, its meaning and the next action", async () => {
    const { body: document } = await send("/openapi.json");
    const rows = await explained();
    expect([...rows.keys()]).toEqual(document.components.schemas.Problem.properties.code.enum);
    for (const [code, [status, meaning, next]] of rows) {
      expect(status, code).toMatch(/^[45]\d\d$/);
      expect(meaning?.length, code).toBeGreaterThan(20);
      expect(next?.length, code).toBeGreaterThan(10);
    }
  });

  it("GET /problems is the target of a problem's type, with the status of the response", async () => {
    const caller = await callerWith();
    const rows = await explained();
    for (const [path, code] of [
      ["/v1/instances/x", "instance_not_found"],
      ["/v1/instances?limit=x", "invalid_payload"],
      ["/nothing", "route_not_found"],
    ] as const) {
      const answer = await caller.get(path);
      const { type } = expectProblem(answer, answer.status, code);
      const { pathname, hash } = new URL(type, `http://localhost${path}`);
      expect(pathname).toBe("/problems");
      expect(rows.get(hash.slice(1))?.[0]).toBe(String(answer.status));
    }
  });

  it("GET /problems returns JSON to a client that accepts JSON", async () => {
    const { body, headers } = await send("/problems", { headers: { accept: "application/json" } });
    expect(headers.get("content-type")).toContain("application/json");
    expect(body.items).toContainEqual(expect.objectContaining({ code: "not_retryable", status: 500, retryable: false }));
    expect(body.items).toHaveLength((await explained()).size);
  });

  it("GET /problems allows no script and only its own style; the landing page does the same, and links to it", async () => {
    for (const path of ["/problems", "/"]) {
      const { status, headers, body } = await send(path);
      expect([status, headers.get("content-type")]).toEqual([200, "text/html; charset=UTF-8"]);
      const [, nonce] = /^default-src 'none'; style-src 'nonce-([^']+)'/.exec(headers.get("content-security-policy") ?? "") ?? [];
      expect(body).toContain(`<style nonce="${nonce}">`);
      expect(body).not.toMatch(/<script(?! type="module" nonce)|style=|onclick|https:\/\/millrace/);
    }
    expect((await send("/")).body).toContain('href="/problems"');
  });
});
