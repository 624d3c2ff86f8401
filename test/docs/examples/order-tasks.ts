import { defineCommand, defineConsumer, defineEvent, defineQueue, defineStep, defineWorkflow, type EffectCall, on, tell } from "millrace";
import { catalog } from "millrace/worker";
import * as z from "zod";

const task = z.object({ order: z.string().min(1), task: z.enum(["pick", "label", "hand over"]) });
export type Task = z.infer<typeof task>;
const subject = ({ order }: { order: string }) => order;
const key = ({ order, task }: Task) => `${order}/${task}`;

export const TaskRun = defineCommand({ type: "task.run", payload: task, key, subject, queue: defineQueue({ name: "task-commands" }) });
const TaskEnded = defineEvent({
  type: "task.ended",
  payload: task.extend({ ok: z.boolean() }),
  subject,
  queue: defineQueue({ name: "task-events" }),
});

const askWarehouse = defineStep({
  effect: "keyed",
  retries: { limit: 2, delay: "1 second" },
  async run({ input, key, fetch }: EffectCall<Task>) {
    const body = JSON.stringify(input);
    const answer = await fetch("https://warehouse.example.com/tasks", { method: "POST", headers: { "idempotency-key": key }, body });
    if (!answer.ok) throw new Error(`The warehouse answered ${answer.status}.`);
  },
});

/** Performs one task, and emits its result. */
export const runTask = defineWorkflow({
  name: "run-task",
  on: TaskRun,
  async run({ payload, step }) {
    const ended = (ok: boolean) => ({ emit: [TaskEnded.from({ ...payload, ok })] });
    try {
      await step.effect("do it", askWarehouse, payload, { record: () => ended(true) });
    } catch (error) {
      await step.commit("say that it failed", () => ended(false));
      throw error;
    }
  },
});

export const taskConsumers = [
  defineConsumer({ queue: TaskRun.queue, starts: [runTask] }),
  defineConsumer({
    queue: TaskEnded.queue,
    routes: [
      on(
        TaskEnded,
        tell("ORDER_ROOM", ({ order }, { tenant_id }) => `${tenant_id}/${order}`),
      ),
    ],
  }),
];
export const taskCatalog = catalog({ consumers: taskConsumers });
