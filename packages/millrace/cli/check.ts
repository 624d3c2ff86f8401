import { join } from "node:path";
import type { RunRecord, Walked } from "../src/check/walk.ts";
import type { Instance } from "./api-client.ts";
import { askedEngine } from "./asked-engine.ts";
import { type Call, Misuse, Refusal, runCommand } from "./command.ts";
import { type AskedApi, askedApi } from "./operate/api.ts";
import { tokenIn } from "./operate/arguments.ts";
import { readOptions } from "./options.ts";
import { findProject, sourcesOf } from "./project.ts";
import { counted, oneLine, paint, say } from "./terminal.ts";
import { configOf, readConfig } from "./wiring/config.ts";
import { Loader, walked as walk } from "./wiring/loader.ts";
import { look } from "./wiring/sources.ts";
import type { CallBetween } from "./wiring/walk.ts";

const USAGE = `Usage: npx millrace check --against URL [--token @FILE] [--workflow NAME] [--limit N] [--reveal] [--json]
  [--env NAME] [--config FILE]
Replays the open instances of a deployment with the code of this folder, and says which would break. No step is executed.
--limit is the maximum number of instances, 200 by default. --reveal reads sensitive values, for which the token needs the scope "reveal".
The exit code is 1 if an instance would break.`;

const PAGE = 200;
/** Requests at the same time. */
const AT_ONCE = 10;
/** The statuses of instances that continue with the deployed code. Instances with recorded steps come first. */
const OPEN = ["running", "waiting", "in_doubt", "paused", "queued", "accepted"] as const;

async function check({ args, stop }: Call): Promise<number> {
  const { values: options } = readOptions(USAGE, {
    args,
    options: {
      ...{ against: { type: "string" }, token: { type: "string" }, workflow: { type: "string" }, limit: { type: "string" } },
      ...{ env: { type: "string" }, config: { type: "string" }, reveal: { type: "boolean" }, json: { type: "boolean" } },
    },
  });
  if (options.against === undefined) throw new Misuse(`--against needs the address of a deployment. ${USAGE.split("\n")[0]}`);
  const most = Number(options.limit ?? PAGE);
  if (!Number.isInteger(most) || most < 1) throw new Misuse("--limit must be a whole number from 1.");
  const project = findProject({ config: options.config, env: options.env });
  const folder = join(project.stateFolder, "check/look");
  const config = configOf(readConfig(project.config), project.env) ?? {};
  const seen = await look({ project, folder, loader: new Loader(sourcesOf(project)), walks: true }, config);
  if ("mistake" in seen) throw new Refusal(seen.mistake);
  const api = askedApi(askedEngine(options.against, await tokenIn(options.token), "--against"), stop);
  const found = [...(await openInstances(api, options.workflow, most))];
  const open = found.slice(0, most);
  const more = found.length > most;
  const records = await recordsOf(api, open, options.reveal ?? false);
  const said = await walk(join(folder, "look.js"), records, config.vars ?? {});
  if ("error" in said) throw new Refusal(`The process that replays the instances ended: ${oneLine(said.error).slice(0, 500)}`);
  const { walked, calls } = said;
  const broken = walked.filter(({ findings }) => findings.some(({ breaks }) => breaks));
  if (options.json)
    say(JSON.stringify({ checked: walked.length, broken: broken.length, calls_between_steps: calls, more, instances: walked }));
  else tell(walked, broken.length, calls, more);
  return broken.length === 0 ? 0 : 1;
}

/** The ids of the open instances, and at least one more than `most` if there are more. An instance may change its status meanwhile. */
async function openInstances(api: AskedApi, workflow: string | undefined, most: number): Promise<Set<string>> {
  const found = new Set<string>();
  for (const status of OPEN) {
    for (let cursor: string | null = ""; cursor !== null && found.size <= most; ) {
      const limit = String(Math.min(PAGE, most + 1 - found.size));
      const query = new URLSearchParams({ status, limit, ...(workflow !== undefined && { workflow }), ...(cursor && { cursor }) });
      const page: { items: Instance[]; next_cursor: string | null } = await api.get(`/v1/instances?${query}`);
      // An undo replays the record too, but takes other steps.
      for (const { id, undo } of page.items) if (undo === null) found.add(id);
      cursor = page.next_cursor;
    }
  }
  return found;
}

async function recordsOf(api: AskedApi, open: readonly string[], reveal: boolean): Promise<RunRecord[]> {
  const rest = [...open];
  const records: RunRecord[] = [];
  const read = async () => {
    for (let id = rest.shift(); id !== undefined; id = rest.shift())
      records.push(await api.get<RunRecord>(`/v1/instances/${id}/record${reveal ? "?reveal=true" : ""}`));
  };
  await Promise.all(Array.from({ length: AT_ONCE }, read));
  return records;
}

function tell(walked: readonly Walked[], broken: number, calls: readonly CallBetween[], more: boolean): void {
  for (const { id, workflow, version, findings } of walked) {
    for (const { step, says, breaks } of findings) {
      const at = step === "" ? "" : ` “${oneLine(step)}”:`;
      say(`${breaks ? paint("red", "✗") : paint("yellow", "?")} ${workflow} ${id} (version ${version})${at} ${oneLine(says)}`);
    }
  }
  for (const { workflow, after, call } of calls) {
    const place = after === null ? "before its first step" : `after “${oneLine(after)}”`;
    say(
      `${paint("yellow", "!")} ${workflow} calls ${call} outside a step, ${place}. Each replay gets another value. Call it in step.read(…).`,
    );
  }
  const unknown = walked.filter(({ findings }) => findings.length > 0).length - broken;
  const beside = unknown > 0 ? `, ${counted(unknown, "instance")} could not be checked to the end` : "";
  say(
    `${counted(walked.length, "open instance")} checked: ${broken === 0 ? "none" : broken} would break${beside}.${more ? " More instances are open: raise --limit." : ""}`,
  );
}

await runCommand(check);
