import type { WorkflowEvent, WorkflowStep } from "cloudflare:workers";
import type { Steps } from "millrace";
import { replayOnce } from "../../../packages/millrace/src/workflow/entrypoint.ts";
import type { WorkflowDefinition } from "../../../packages/millrace/src/workflow/workflow.ts";
import { type LabCall, lab } from "../../probe/lab.ts";
import { app } from "../../probe/worker.ts";
import { envelopeOf, probeEnv, until } from "../harness.ts";
import { held, LAB, runLab } from "../lab.ts";

/** A platform whose process remains alive: each step gets one attempt, and nothing is stored. */
const steps = {
  do: (_name: string, _policy: object, body: (call: object) => Promise<unknown>) => body({ attempt: 1 }),
  sleep: () => Promise.resolve(),
  waitForEvent: () => new Promise(() => undefined),
} as unknown as WorkflowStep;

/**
 * Executes a replay of an instance in the test's own process, which a restart on the platform does not end. `isFirst`: the replay assumes
 * that no replay preceded it.
 */
export async function replayHere<Payload>(workflow: WorkflowDefinition<Payload>, instanceId: string, isFirst: boolean): Promise<unknown> {
  const payload = { ...(await envelopeOf(instanceId)), ...(isFirst && { created_ms: Date.now() }) };
  const event = { instanceId, payload, timestamp: new Date() } as unknown as WorkflowEvent<never>;
  return replayOnce(workflow, { env: probeEnv as never, event, steps, deployment: app });
}

/** The code after a race of two reads, with the winner of the race. */
type Rest = (call: LabCall, winner: string) => Promise<unknown>;

interface Replays {
  readonly older: Rest;
  readonly newer: Rest;
  /** The winner of the race in the older replay; in all later replays the winner is "b". Default: "a". */
  readonly winner?: "a" | "b";
  /** False for an older replay that has read the inbox, because it may follow another replay. */
  readonly isFirst?: boolean;
}

/**
 * A lab instance with two replays of the same run. The older replay pauses after a race of two reads. The newer replay is the platform's.
 */
export async function twoReplays({ older, newer, winner: first = "a", isFirst = true }: Replays) {
  const state = { isHeld: false, goesOn: false, begun: 0 };
  const pause: Rest = async (call, winner) => {
    state.isHeld = true;
    await held(() => state.goesOn);
    return older(call, winner);
  };
  const { instanceId } = await runLab(
    async (call) => {
      const [own, rest] = state.begun++ === 0 ? [first, pause] : ["b", newer];
      let winner: string | undefined;
      const read = (step: Steps, which: string) =>
        step.read(which as never, () => held(() => which === own || winner !== undefined).then(() => which));
      winner = await Promise.race([read(call.step, "a"), read(call.step, "b")]);
      return rest(call, winner);
    },
    { delaySeconds: 3600 },
  );
  const over = Promise.allSettled([replayHere(lab, instanceId, isFirst)]).then(([end]) => end);
  await until(async () => state.isHeld, Boolean);
  return {
    instanceId,
    /** Begins the newer replay. */
    begin: async () => void (await LAB.create({ id: instanceId, params: await envelopeOf(instanceId) })),
    /** Lets the older replay continue. Returns the end of the older replay. */
    release: () => {
      state.goesOn = true;
      return over;
    },
  };
}
