import { execFileSync, spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it, onTestFinished, vi } from "vitest";
import { freePort } from "../../../packages/millrace/cli/local/ports.ts";
import { ROOT, wranglerEnv } from "../../../packages/millrace/cli/local/wrangler.ts";
import { ask } from "../ask.ts";
import { greetOnPage } from "../examples/client-page.ts";
import clientWorker from "../examples/client-worker.ts";
import { ended, greeter, OWN_WORKER, withPrograms } from "../greeter.ts";
import { fencesOf } from "../markdown.ts";
import { curlsOf } from "../run/curl.ts";
import { apply, movesOf } from "../walk.ts";

const page = OWN_WORKER;
/** The commands that the test runs. Commands that need a registry or an account are excluded. */
const shells = fencesOf(page)
  .filter(({ language, comment, text }) => language === "sh" && comment !== "install" && !text.startsWith("npx wrangler login"))
  // `init.test.ts` runs the type check: it needs the declarations of a built package.
  .map(({ text }) => ({ text: text.replace("npm run check\n", "") }));

it("docs/own-worker.md installs the same package versions as the engine", () => {
  const installs = fencesOf(page).filter(({ comment }) => comment === "install");
  const named = [
    ...installs
      .map(({ text }) => text)
      .join("")
      .matchAll(/(?<= )((?:@[\w-]+\/)?[\w-]+)@(\S+)/g),
  ].map(([, name, version]) => [name, version]);
  const { dependencies, devDependencies } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
  expect(named.length).toBe(9);
  expect(named).toEqual(named.map(([name = ""]) => [name, { ...dependencies, ...devDependencies }[name]]));
});

/** The programs of docs/client.md call the Worker of this page. */
async function callsOf(url: string, token: string): Promise<void> {
  expect(await greetOnPage("Bea", async () => token, url)).toBe("Good morning, Bea.");
  expect(await greetOnPage("", async () => token, url)).toContain("Enter another name. The payload of greet is not valid");
  Object.assign(process.env, { ENGINE_URL: url, ENGINE_TOKEN: token });
  const route = await import("../examples/client-route.ts");
  const posted = await route.POST(new Request(`${url}/api/greet`, { method: "POST", body: JSON.stringify({ name: "Bea" }) }));
  const { instance_id, replayed } = (await posted.json()) as { instance_id: string; replayed: boolean };
  expect([posted.status, replayed]).toEqual([202, true]);
  const got = await route.GET(new Request(`${url}/api/greet?id=${instance_id}`));
  expect(await got.json()).toEqual({ status: "complete", said: "Good morning, Bea." });
  const bound = (to: string, init: RequestInit) => fetch(to.replace("https://engine", url), init);
  const env = { ENGINE: { fetch: bound } as unknown as Fetcher, ENGINE_TOKEN: token };
  const answered = await clientWorker.fetch(new Request("http://other/?name=Cid"), env);
  expect(await answered.json()).toEqual({ status: "complete", said: "Good morning, Cid." });
}

it("docs/own-worker.md builds a Worker that uses only the engine's entry points, with its own token and tables", async () => {
  const [folder, port] = [greeter(), String(await freePort())];
  const env = { ...wranglerEnv(join(folder, "logs")), PATH: withPrograms().PATH, PORT: port, NO_COLOR: "1" };
  // The programs are installed: npx needs no registry.
  const shell = (script: string) => `npx() { "$@"; }; ${script.replaceAll("8787", port)}`;
  const run = (script: string) => {
    const options = { cwd: folder, env, encoding: "utf8", stdio: "pipe" } as const;
    return execFileSync("bash", ["-euo", "pipefail", "-c", shell(script)], options);
  };
  const variables = new Map<string, string>();
  const lookUp = (name: string) => {
    const value = variables.get(name);
    if (value === undefined) throw new Error(`The page does not define $${name}.`);
    return value;
  };
  for (const move of movesOf(page)) if (move.do === "add") apply(move, folder);
  let curls = 0;
  for (const { text } of shells) {
    if (text.includes("curl ")) {
      for (const curl of curlsOf(text)) {
        const once = () => ask(curl, lookUp);
        const body = await (curl.method === "GET" ? vi.waitFor(once, { timeout: 60_000, interval: 100 }) : once());
        if (typeof body.instance_id === "string") variables.set("ID", body.instance_id);
        curls++;
      }
    } else if (text.startsWith("npx millrace dev")) {
      const child = spawn("bash", ["-c", shell(text)], { cwd: folder, env, detached: true, stdio: ["ignore", "pipe", "pipe"] });
      onTestFinished(() => ended(child));
      let output = "";
      for (const stream of [child.stdout, child.stderr]) stream?.on("data", (chunk) => (output += chunk));
      await vi.waitUntil(() => /Stop {2}|✗/.test(output) || child.exitCode !== null, { timeout: 120_000 });
      expect(output).toContain(`Millrace runs at http://localhost:${port}`);
      variables.set("TOKEN", readFileSync(join(folder, ".millrace/token"), "utf8").trim());
    } else if (text.startsWith("URL=")) {
      for (const [, name = "", value = ""] of text.replaceAll("8787", port).matchAll(/^(\w+)="?([^(\n]*?)"?$/gm))
        variables.set(
          name,
          value.replaceAll(/\$(\w+)/g, (_, other) => lookUp(other)),
        );
    } else run(text);
  }
  expect(curls).toBe(4);
  await callsOf(lookUp("URL"), lookUp("TOKEN"));
  const program = fencesOf(page).find(({ comment }) => comment?.endsWith("/worker.ts"))?.text ?? "";
  expect(program.split("\n").filter((line) => line.trim() !== "").length).toBeLessThanOrEqual(20);
});
