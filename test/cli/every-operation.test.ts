import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { ROOT } from "../../packages/millrace/cli/local/wrangler.ts";
import { OPERATIONS } from "../../packages/millrace/cli/names.js";
import { NOUNS } from "../../packages/millrace/cli/operate/generic.ts";
import { operationsIn } from "../../packages/millrace/cli/operate/operations.ts";
import { app, caller } from "../console/stage.ts";
import { emptyFolder } from "./folder.ts";
import { millrace } from "./millrace.ts";

const REASON = ["--reason", "a test"];
const audit = { type: "brand.audit", payload: { brand: "acme" } };

/** A read and an act of each noun, in an order in which each finds what the earlier ones made: the exit code, and a part of the output. */
const CALLS: readonly [call: string, options: readonly string[], code: number, says: string | RegExp][] = [
  ["brands put acme", [], 0, /^brand +acme$/m],
  [`enqueue ${audit.type}`, ["--payload", '{"brand":"acme"}', "--key", "tea,1", "--wait"], 0, "is complete."],
  ["keys show tea,1", [], 0, /^key +tea,1\n(.+\n)*holders\nkind +id +name/],
  ["correlations show nope", [], 1, "Search: npx millrace search"],
  ["search acme", [], 0, /^kind +id +status/],
  ["catalog show", ["--json"], 0, '"messages":['],
  ["catalog check research.requested", ["--payload", "{}"], 1, "It would be refused.\nThe request is not valid: "],
  ["instances steps latest audit-brand", [], 0, /^name +state .*\n(look at the brand|tell the agent) +complete /],
  ["instances effects latest", [], 0, /^key +state .*\n\S+ +done +tell the agent/],
  ["instances events latest", [], 0, /^tell the agent +brand\.audited +event/m],
  ["instances causes", [], 0, "None."],
  ["instances counts", [], 0, /^complete +[1-9]/m],
  ["instances run-again latest audit-brand", [...REASON, "--dry-run"], 0, 'with the stored payload, under the key "tea,1/again/'],
  ["instances run-again latest audit-brand", [...REASON, "--wait"], 0, "audit-brand of acme is complete."],
  [
    "workflows pause audit-brand",
    ["--body", '{"reason":"closed","dry_run":true}'],
    0,
    /^Dry run: .*\nCommands are accepted.*\nrunning 0, waiting 0\n/,
  ],
  ["workflows pause audit-brand", ["--body", '{"reason":"closed"}'], 0, "It is paused."],
  [`enqueue ${audit.type}`, ["--payload", '{"brand":"acme"}', "--key", "tea,2", "--wait"], 3, "Paused by ada: closed"],
  ["workflows list", [], 0, /^audit-brand +paused/m],
  ["workflows resume audit-brand", REASON, 0, "It is resumed."],
  ["instances signal latest brand.audited", ["--payload", "{}", "--dry-run"], 1, "No run can wait for brand.audited"],
  ["events send nope.happened", ["--payload", "{}", "--key", "e-1"], 1, "nope.happened"],
  ["schedules put nightly", ["--cron", "0 3 * * *", "--command", JSON.stringify(audit), ...REASON], 0, /^cron +0 3 \* \* \*$/m],
  ["schedules pause nightly", REASON, 0, "Paused."],
  ["schedules list", ["--limit", "1"], 0, /^nightly +paused +0 3 \* \* \*/m],
  ["schedules run nightly", [...REASON, "--key", "by hand", "--wait"], 0, "audit-brand of acme is complete."],
  ["schedules runs nightly", [], 0, /^manual .* a test$/m],
  ["schedules delete nightly", REASON, 0, "It is gone."],
  ["schedules show nightly", [], 1, "List them: npx millrace schedules list"],
  ["tokens mint", ["--actor", "grace", "--scopes", "read,enqueue", ...REASON], 0, /^scopes +enqueue, read$/m],
  ["tokens list", [], 0, /^\S+ +grace +enqueue, read/m],
  ["tokens revoke nope", REASON, 1, "List them: npx millrace tokens list"],
  ["alerts list", ["--state", "firing"], 0, ""],
  ["alerts mute nope", ["--until", "2h", ...REASON], 1, "List them: npx millrace alerts list"],
  ["bulk-actions start", ["--verb", "retry", "--filter", "{}", "--ramp", "1,10", "--dry-run"], 0, /^Dry run: .*\nmatched +0$/m],
  ["bulk-actions start", ["--verb", "retry", "--body", '{"filter":{}}', ...REASON], 0, /^filter +\{"status":"errored"\}$/m],
  ["bulk-actions list", [], 0, /^\S+ +(running|complete) +retry +ada /m],
  ["audit list", ["--since", "1h", "--limit", "2", "--all", "--verb", "mint"], 0, /^\d+ s ago +ada +mint +\S+ +applied +a test$/m],
  ["audit list", ["--limit", "1"], 0, "There is more: --cursor "],
  ["lanes list", [], 0, "None."],
  ["lanes pause nope acme/tea", REASON, 1, "nope"],
  ["locks list", [], 0, "None."],
  ["locks break sync/crm", REASON, 0, /^broken +false$/m],
  ["limits list", [], 0, "None."],
  ["approvals list", ["--state", "pending"], 0, "None."],
  ["approvals approve nope", REASON, 1, "List them: npx millrace approvals list"],
  ["effects list", ["--workflow", "audit-brand"], 0, "None."],
  ["effects confirm nope", ["--output", "null", ...REASON], 1, "List them: npx millrace effects list"],
  ["dead-letters causes", [], 0, "None."],
  ["dead-letters escalate nope", REASON, 1, "List them: npx millrace dead-letters list"],
  ["divergences list", [], 0, "None."],
  ["queues list", ["--minutes", "1"], 0, /^queue +depth +oldest seconds/],
  ["messages by-minute", [], 0, ""],
  ["queues pause nope", REASON, 1, "is not valid"],
  ["workflows pause nope", REASON, 1, "is not valid"],
  ["workflows by-time", ["--span", "hour"], 0, ""],
  ["metrics show", [], 0, /^# HELP millrace_/m],
  ["costs show", [], 0, /^workflow +basis/m],
  ["health show", [], 0, /^ok +true$/m],
  ["openapi show", [], 0, '"openapi":"3.1.0"'],
  ["caller show", [], 0, /^actor +ada$/m],
  ["callback-secret show", [], 0, /^secret +whsec_/],
  ["sign-in-codes mint", REASON, 0, /^expires .* in \d+ min$/m],
  [`enqueue ${audit.type}`, ["--payload", '{"brand":"acme"}', "--key", "tea,3", "--run-at", "2h"], 0, "Accepted. It is due "],
  ["commands send-batch", ["--commands", JSON.stringify([audit])], 0, /^ +202 /m],
  ["stream-tokens mint", ["--path", "/v1/stream"], 0, /^path +\/v1\/stream$/m],
];

it("the CLI has every operation of the OpenAPI document, and a read and a write command of each noun work with an engine", async () => {
  const ada = caller(await app(), { endsInMs: 100 * 86_400_000 });
  const document = await ada.ask<object>("GET", "/openapi.json");
  const served = operationsIn(document).map(({ command }) => command);
  expect(served).toEqual(expect.arrayContaining(OPERATIONS.map(({ command }) => command)));

  const say = millrace(ada);
  const done = new Set<string>();
  for (const [call, options, code, says] of CALLS) {
    const said = await say([...call.split(" "), ...options]);
    expect(said.code, `${call}\n${said.out}${said.err}`).toBe(code);
    if (typeof says === "string") expect(`${said.out}${said.err}`, call).toContain(says);
    else expect(`${said.out}${said.err}`, call).toMatch(says);
    done.add(
      call
        .split(" ")
        .slice(0, 2)
        .join(" ")
        .replace(/^(search|enqueue) .*/, "$1"),
    );
  }
  const kinds = (commands: readonly string[]) =>
    OPERATIONS.filter(({ command }) => commands.includes(command)).map(
      ({ command, method }) => `${command.split(" ")[0]} ${method === "GET"}`,
    );
  const all = kinds(OPERATIONS.map(({ command }) => command));
  expect(new Set(all).difference(new Set(kinds([...done])))).toEqual(new Set());
});

it("the CLI accepts aliases of nouns and verbs, a token from a file, and commands that the app defines", async () => {
  const ada = caller(await app());
  const file = join(emptyFolder(), "token");
  writeFileSync(file, `${ada.token}\n`);
  const say = millrace({ url: ada.url });
  const listed = await say(["schedule", "ls", "--json", "--token", `@${file}`]);
  expect(listed).toEqual({ code: 0, out: '{"items":[],"next_cursor":null}\n', err: "" });
  expect(await say(["queue", "list", "--token", ada.token])).toMatchObject({ code: 2, err: expect.stringContaining("--token is @FILE") });

  const own = millrace(ada);
  expect(await own(["webhooks", "list"])).toMatchObject({ code: 0, err: "None.\n" });
  expect((await own(["webhook", "--help"])).out).toContain("webhooks redeliver ID DELIVERY");
  expect(await own(["instances", "text-calls", "nope"])).toMatchObject({
    code: 1,
    err: expect.stringContaining("There is no instance nope"),
  });
  expect(await own(["webhoks", "list"])).toMatchObject({ code: 2, err: expect.stringContaining('There is no command "webhoks".') });
  expect(await own(["instances", "list", "--limit", "many"])).toMatchObject({
    code: 2,
    err: expect.stringContaining("--limit must be a number"),
  });
  expect(await own(["locks", "break", "x"])).toMatchObject({ code: 2, err: expect.stringContaining("--reason is missing") });
});

const LAUNCH = [join(ROOT, "packages/millrace/cli/launch.js")];

function script(shell: string): string {
  return execFileSync(process.execPath, [...LAUNCH, "completion", shell], { encoding: "utf8" });
}

it.each([
  ["sched", "schedules"],
  ["schedules pa", "pause"],
  ["schedules put --c", "--cron --command"],
  ["instances list --status e", "errored"],
  ["instances list --limit 5 --al", "--all"],
  ["enqueue order.ship --pay", "--payload"],
  ["completion f", "fish"],
  ["do", "doctor"],
])("bash completion completes millrace %s to %s", (typed, completed) => {
  const words = ["millrace", ...typed.split(" ")];
  const call = `source <(printf %s "$SCRIPT"); COMP_WORDS=(${words.join(" ")}); COMP_CWORD=${words.length - 1}; _millrace; echo "\${COMPREPLY[*]}"`;
  const said = execFileSync("bash", ["-c", call], { env: { ...process.env, SCRIPT: script("bash") }, encoding: "utf8" });
  expect(said.trim()).toBe(completed);
});

it.each(["zsh", "fish"])("the completion script for %s has every noun, and its syntax is valid if that shell is installed", (shell) => {
  const text = script(shell);
  for (const noun of Object.keys(NOUNS)) expect(text).toContain(noun);
  const file = join(mkdtempSync(join(emptyFolder(), "completion-")), "script");
  writeFileSync(file, text);
  const program = ["/bin", "/usr/bin", "/usr/local/bin"].map((folder) => join(folder, shell)).find(existsSync);
  if (program !== undefined) expect(spawnSync(program, ["-n", file], { encoding: "utf8" })).toMatchObject({ status: 0, stderr: "" });
});
