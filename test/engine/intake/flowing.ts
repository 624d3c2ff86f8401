import { onTestFinished } from "vitest";
import { noteFlow } from "../../../packages/millrace/src/contract/flow.ts";
import { type LabCall, lab, labs } from "../../probe/lab.ts";
import { asking } from "../asking.ts";
import { deliver, rows, until } from "../harness.ts";

const key = ({ note }: { note: string }) => note;

interface Limits {
  concurrency?: { limit: number };
  debounce?: { periodMs: number };
  throttle?: { limit: number; periodMs: number };
}

/** Gives the runs of `lab` these limits by the note in their payload, until the test ends. */
function limited(limits: Limits): void {
  noteFlow({ ...lab, ...Object.fromEntries(Object.entries(limits).map(([name, limit]) => [name, { ...limit, key }])) });
  onTestFinished(() => noteFlow(lab));
}

/** A tenant with runs that end at the request of the test, and a record of the runs in progress. */
export async function crowd(limits: number | Limits = 1) {
  limited(typeof limits === "number" ? { concurrency: { limit: limits } } : limits);
  const caller = await asking();
  const begun: string[] = [];
  const going = new Set<string>();
  const ends = new Set<string>();
  let most = 0;
  const work = async ({ step, payload: { name } }: LabCall) => {
    await step.read("work", async () => {
      if (!begun.includes(name)) begun.push(name);
      going.add(name);
      most = Math.max(most, going.size);
      await until(async () => ends.has(name) || ends.has("all"), Boolean);
      going.delete(name);
    });
  };
  const nameOf = (name: string) => `${caller.tenantId}-${name}`;
  const command = (name: string, note = "one") => {
    labs.set(nameOf(name), work);
    return { type: "lab.requested", payload: { name: nameOf(name), note } };
  };
  const send = async (name: string, more: object = {}, note = "one"): Promise<string> => {
    const { status, body } = await caller.post("/v1/commands", { ...command(name, note), ...more });
    if (status !== 202) throw new Error(JSON.stringify(body));
    return body.instance_id;
  };
  const short = (name: string) => name.slice(caller.tenantId.length + 1);
  return {
    ...caller,
    command,
    send,
    nameOf,
    end: (...names: string[]) => void names.forEach((name) => void ends.add(name === "all" ? name : nameOf(name))),
    begun: () => begun.map(short),
    most: () => most,
    hasBegun: (...names: string[]) =>
      until(
        async () => begun.map(short),
        (now) => names.every((name) => now.includes(name)),
      ),
    act: (id: string, verb: string, body: object = {}) => caller.post(`/v1/instances/${id}/${verb}`, { reason: "test", ...body }),
    heldOf: async (id: string) => (await caller.get(`/v1/instances/${id}`)).body.held as string | null,
    /** Delivers the message of an instance again, as its queue may do. */
    arrives: async (id: string) => {
      const [row] = await rows<{ envelope: string }>("SELECT envelope FROM millrace_instances WHERE id = ?1", id);
      return deliver("probe-commands", [JSON.parse(row?.envelope ?? "")]);
    },
  };
}
