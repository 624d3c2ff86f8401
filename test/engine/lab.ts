import { type Accepted, MillraceError, notRetryable, type Steps, upstreamRefused } from "millrace";
import { acceptCommands, type UntypedRequest } from "../../packages/millrace/src/intake/accept/enqueue.ts";
import { type LabCall, labPasses, labs } from "../probe/lab.ts";
import { app } from "../probe/worker.ts";
import { fresh, probeEnv, until } from "./harness.ts";

const tenant = { tenantId: "acme", source: "test" };

export const LAB = (probeEnv as unknown as { LAB: Workflow }).LAB;

/** Accepts a run that executes `code` on every replay. Code that differs between replays reads a variable of the test. */
export async function runLab(
  code: (call: LabCall) => Promise<unknown>,
  {
    name = fresh("lab"),
    note = "",
    person,
    tenantId = tenant.tenantId,
    ...request
  }: Partial<UntypedRequest> & { name?: string; note?: string; person?: object; tenantId?: string } = {},
): Promise<Accepted & { name: string }> {
  labs.set(name, code);
  const [answer] = await acceptCommands(probeEnv, app, { ...tenant, tenantId }, [
    { type: "lab.requested", payload: { name, note, ...(person && { person }) }, ...request },
  ]);
  if (answer instanceof MillraceError || answer === undefined) throw answer;
  return { ...answer, name };
}

/** A lab run's status on the platform: "unknown" where the platform has no such instance. */
export async function platformOf(id: string): Promise<{ status: string; error?: { name: string; message: string } }> {
  try {
    return (await (await LAB.get(id)).status()) as { status: string };
  } catch {
    return { status: "unknown" };
  }
}

/** Waits until a lab run has one of these statuses on the platform. Returns the status that it has at the end of the wait. */
export function platformReaches(id: string, ...statuses: string[]): Promise<string> {
  return until(
    async () => (await platformOf(id)).status,
    (status) => statuses.includes(status),
  );
}

/** Restarts an ended lab run on the platform. Returns its status after one more replay of its code. */
export async function restartLab(id: string): Promise<string> {
  await platformReaches(id, "complete", "errored", "terminated");
  const before = labPasses.get(id) ?? 0;
  await (await LAB.get(id)).restart();
  await until(
    async () => labPasses.get(id) ?? 0,
    (count) => count > before,
  );
  return platformReaches(id, "complete", "errored");
}

/** The error in the instance row of a run. */
export async function errorOf(id: string): Promise<{ code?: string; step?: string; message?: string } | null> {
  const row = await probeEnv.DB.prepare("SELECT error FROM millrace_instances WHERE id = ?1").bind(id).first<{ error: string | null }>();
  return row?.error ? JSON.parse(row.error) : null;
}

/** A run that fails until it is fixed, then pauses in its middle until it may continue. */
export async function failsUntilMended(name = fresh("lab")) {
  const state = { broken: true, go: false };
  const { instanceId } = await runLab(
    async ({ step }) => {
      await step.commit("a", () => (state.broken ? refuse() : {}), { retries: { limit: 0, delay: 10 } });
      await step.read("b", async () => held(() => state.go));
      await step.commit("c", () => ({}));
    },
    { name },
  );
  return { instanceId, state };
}

/** The error of an upstream that has certainly done nothing. */
export function refuse(): never {
  throw upstreamRefused("no");
}

/**
 * A run of two branches. The first branch is parked. The second branch fails after that, until it is fixed. Returns after the run
 * has failed.
 */
export async function parkedBesideFailure(
  park: (step: Steps, name: string) => Promise<unknown>,
  isParked: (instanceId: string) => Promise<boolean>,
): Promise<{ instanceId: string; name: string; mend: () => void }> {
  const state = { mended: false };
  const { instanceId, name } = await runLab(async ({ step, payload, instanceId: id }) => {
    const failing = async () => {
      await step.read("wait for the first branch", () => until(() => isParked(id), Boolean));
      await step.read(
        "fails",
        async () => {
          if (!state.mended) throw notRetryable("Broken.");
          return 1;
        },
        { retries: { limit: 0, delay: 10 } },
      );
    };
    const [heard] = await Promise.all([park(step, payload.name), failing()]);
    return heard;
  });
  await platformReaches(instanceId, "errored");
  await until(
    () => errorOf(instanceId),
    (error) => error !== null,
  );
  const mend = () => {
    state.mended = true;
  };
  return { instanceId, name, mend };
}

/** The result of a complete lab run. */
export async function outputOf(id: string): Promise<unknown> {
  await platformReaches(id, "complete");
  return (await (await LAB.get(id)).status()).output;
}

/** Waits by polling, because a promise must not cross from one request into another. */
export async function held(released: () => boolean | Promise<boolean>): Promise<number> {
  while (!(await released())) await scheduler.wait(10);
  return 1;
}
