import { type Result, send } from "./api.ts";
import { useData } from "./use-data.ts";

export interface Explained {
  code: string;
  title: string;
  meaning: string;
  next: string;
}

let asked: Promise<Result<unknown>> | undefined;

async function read(): Promise<Result<ReadonlyMap<string, Explained>>> {
  asked ??= send("GET", "/problems");
  const answer = await asked;
  if (answer.ok) return { ok: true, data: new Map((answer.data as { items: Explained[] }).items.map((one) => [one.code, one])) };
  asked = undefined;
  return answer;
}

/** Returns the explanations of error codes. They are loaded once per page load, at the first use. The result is empty before. */
export const useExplained = (): ReadonlyMap<string, Explained> => useData(read, []).data ?? new Map();
