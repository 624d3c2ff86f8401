import { inDevelopment } from "../contract/development.ts";

/**
 * An error's text for log and traces. An upstream's response may repeat the request, so log and traces of a deployment omit the response's
 * text, which is stored only with the instance.
 */
export function wordsOf(env: object, message: string, upstreamStatus: number | undefined): string {
  if (upstreamStatus === undefined || inDevelopment(env)) return message;
  return `An upstream responded ${upstreamStatus}: the instance has its text.`;
}
