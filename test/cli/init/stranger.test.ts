import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { chromium } from "playwright-core";
import { expect, inject, it, onTestFinished, vi } from "vitest";
import { freePort } from "../../../packages/millrace/cli/local/ports.ts";
import type { StageParts } from "../../console/global-setup.ts";
import { builtPackage, run, userFolder } from "./installed.ts";

const HONO = {
  "package.json": '{ "name": "my-app", "type": "module", "dependencies": { "hono": "^4.13.0" } }\n',
  "wrangler.jsonc": '{\n  // My Worker.\n  "name": "my-app",\n  "main": "src/index.ts",\n  "compatibility_date": "2026-10-01"\n}\n',
  "src/index.ts":
    'import { Hono } from "hono";\n\nconst app = new Hono();\n\napp.get("/", (c) => c.text("Hello Hono!"));\n\nexport default app;\n',
};

/** A file of thirty lines: a row, then a mail. */
const WELCOME = (mailUrl: string) => `import { defineStep, defineWorkflow, type EffectCall, notRetryable } from "millrace";
import * as z from "zod";

/** The mail service takes an idempotency key. */
const sendMail = defineStep({
  effect: "keyed",
  async run({ input, key, fetch }: EffectCall<{ to: string }>) {
    const answer = await fetch("${mailUrl}", {
      method: "POST",
      headers: { "idempotency-key": key },
      body: JSON.stringify(input),
    });
    if (answer.status === 422) throw notRetryable(\`The mail service answered \${await answer.text()}\`, 422);
    if (!answer.ok) throw new Error(\`The mail service answered \${answer.status}.\`);
    return { sent: true };
  },
});

export const welcome = defineWorkflow({
  name: "welcome",
  input: z.object({ email: z.email() }),
  key: ({ email }) => email,
  async run({ input: { email }, step }) {
    const { since } = await step.commit("register", () => ({ output: { since: Date.now() } }));
    await step.effect("send mail", sendMail, { to: email });
    return { email, since };
  },
});
`;

it("a new user's first ten minutes succeed: init, a chain of 30 lines, dev, a command, a failure in the console, and its retry by a click", async () => {
  const began = Date.now();
  const times: string[] = [];
  const reached = (what: string) => times.push(`${((Date.now() - began) / 1000).toFixed(1).padStart(6)} s  ${what}`);
  const mails: string[] = [];
  let isRefusing = true;
  const mail = createServer((request, response) => {
    if (isRefusing) return void response.writeHead(422).end("unknown sender");
    mails.push(String(request.headers["idempotency-key"]));
    response.end("{}");
  });
  mail.listen(0, "127.0.0.1");
  await once(mail, "listening");
  onTestFinished(() => void mail.close());
  const mailUrl = `http://127.0.0.1:${(mail.address() as AddressInfo).port}/send`;

  const built = builtPackage();
  onTestFinished(built.remove);
  const root = userFolder(built.folder, HONO);
  reached("the package is built and installed");

  expect(run(root, "millrace", "init", "--yes").code).toBe(0);
  expect(readFileSync(join(root, "wrangler.jsonc"), "utf8")).toContain("// My Worker.");
  reached("init");

  const configured = readFileSync(join(root, "wrangler.jsonc"), "utf8");
  writeFileSync(join(root, "src/welcome.ts"), WELCOME(mailUrl));
  const index = join(root, "src/index.ts");
  const source = readFileSync(index, "utf8");
  expect(source).toContain("workflows: []");
  writeFileSync(index, `import { welcome } from "./welcome.ts";\n${source.replace("workflows: []", "workflows: [welcome]")}`);
  expect(WELCOME("").split("\n").length).toBeLessThanOrEqual(31);

  const port = await freePort();
  const child = spawn(process.execPath, [join(root, "node_modules/millrace/millrace.js"), "dev", "--port", String(port)], {
    cwd: root,
    env: { ...process.env, NO_COLOR: "1" },
  });
  onTestFinished(async () => {
    if (child.exitCode !== null) return;
    child.kill("SIGINT");
    await once(child, "exit");
  });
  let said = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (said += chunk));
  await vi.waitFor(() => expect(said).toContain("Stop   "), { timeout: 90_000, interval: 200 });
  expect(said).not.toContain("✗");
  expect(await (await fetch(`http://localhost:${port}/`)).text()).toBe("Hello Hono!");
  reached("dev runs, and responds as before");

  // Runs concurrently with this process, which serves the mails.
  const millrace = (...args: string[]) =>
    new Promise<string>((resolve) =>
      execFile(process.execPath, [join(root, "node_modules/millrace/millrace.js"), ...args], { cwd: root }, (_, out, err) =>
        resolve(out + err),
      ),
    );
  expect(await millrace("enqueue", "welcome", "--payload", '{"email":"ada@example.com"}', "--wait")).toContain("unknown sender");
  reached("a command, and its failure");

  const answer = await fetch(inject("consoleStageUrl"));
  const { browser } = (await answer.json()) as StageParts;
  const chrome = await chromium.connect(browser);
  onTestFinished(() => chrome.close());
  const page = await (await chrome.newContext()).newPage();
  const [link = ""] = /http:\S+\/console#code=\S+/.exec(said) ?? [];
  await page.goto(link);
  await page.getByText("unknown sender").first().waitFor();
  reached("the failure is in the console");

  isRefusing = false;
  await page.getByRole("navigation").getByRole("link", { name: "Instances" }).click();
  await page.getByRole("link", { name: "ada@example.com" }).first().click();
  await page.getByRole("button", { name: "Retry", exact: true }).click();
  const dialog = page.getByRole("dialog", { name: /Retry/ });
  await dialog.getByRole("textbox").first().fill("The sender is registered now.");
  await dialog.getByRole("button", { name: "Retry", exact: true }).click();
  await vi.waitFor(async () => expect(await millrace("instances", "show", "latest")).toContain("complete"), {
    timeout: 60_000,
    interval: 500,
  });
  expect(mails).toHaveLength(1);
  expect(said).not.toContain("starting again");
  reached("retried by a click, and complete");

  expect(readFileSync(join(root, "wrangler.jsonc"), "utf8")).toBe(configured);
  process.stdout.write(`${times.join("\n")}\n`);
});
