import { defineStep, type EffectCall } from "../engine/index.ts";
import { recordKey, social } from "../providers/index.ts";

/** A post that is to be made: its text, and when it was asked for (ISO 8601, the same at every attempt). */
export interface Announcement {
  text: string;
  createdAt: string;
}

/** Posts to the brand's social account, under a record key made from ours: posting twice replaces the post by itself. */
export const announce = defineStep({
  effect: "keyed",
  run: async ({ input, key, signal, env }: EffectCall<Announcement>) =>
    social(env).post({ ...input, rkey: await recordKey(input.createdAt, key) }, { key, signal }),
});
