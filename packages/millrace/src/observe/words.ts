import { inDevelopment } from "../contract/development.ts";

/**
 * An error's text, as the log and traces say it. What an upstream answered may repeat what it was sent: deployed, its words stay with the
 * instance.
 */
export function wordsOf(env: object, message: string, upstreamStatus: number | undefined): string {
  if (upstreamStatus === undefined || inDevelopment(env)) return message;
  return `An upstream answered ${upstreamStatus}: its words are with the instance.`;
}
