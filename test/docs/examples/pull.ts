import { definePullQueue, pullObject, pullQueueOf } from "millrace/pull";

/** Scenes that machines outside of Cloudflare render. */
export const renders = definePullQueue<{ scene: number }>({
  name: "renders",
  retries: { limit: 3, delay: "10 seconds" },
  visibility: "1 minute",
  onDeadLetter: ({ id, body, attempts }) => console.error(`Scene ${body.scene} (${id}) failed ${attempts} times.`),
});

export class PullQueues extends pullObject([renders]) {}

/** For a Worker, an object or a step. Two requests for a scene render it once. */
export async function askForRender(env: Cloudflare.Env, tenant: string, scene: number): Promise<void> {
  await pullQueueOf(env, renders, tenant).send({ scene }, { idempotencyKey: `scene/${scene}` });
}
