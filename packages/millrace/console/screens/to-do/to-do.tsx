import type { ComponentType } from "preact";
import { get, type Result } from "../../data/api.ts";
import { may } from "../../data/session.ts";
import { useData, useRegularly } from "../../data/use-data.ts";
import { Pages } from "../../parts/page.tsx";
import type { ScreenProps } from "../screen.ts";
import { Alerts } from "./alerts.tsx";
import { Questions } from "./questions.tsx";
import { UnknownOutcomes } from "./unknown-outcomes.tsx";

const PAGES: Readonly<Record<string, readonly [title: string, page: ComponentType]>> = {
  questions: ["Questions", Questions],
  "unknown-outcomes": ["Unknown outcomes", UnknownOutcomes],
  alerts: ["Alerts", Alerts],
};

const MOST = 100;

/** Reads the number of open items for each page. A page that the token may not read has no number. */
async function readOpen(): Promise<Result<Record<string, string>>> {
  const limit = String(MOST);
  const [questions, outcomes, alerts] = await Promise.all([
    get("/v1/approvals", { query: { state: "pending", limit } }),
    get("/v1/effects", { query: { limit } }),
    may("observe") ? get("/v1/alerts", { query: { state: "firing", limit } }) : undefined,
  ]);
  const said = (found: Result<{ items: unknown[] }> | undefined) => {
    const count = found?.ok ? found.data.items.length : 0;
    return count === 0 ? "" : `${count}${count === MOST ? "+" : ""}`;
  };
  return { ok: true, data: { questions: said(questions), "unknown-outcomes": said(outcomes), alerts: said(alerts) } };
}

export function ToDo({ param }: ScreenProps) {
  const { data, again } = useData(readOpen, [], ["approval", "doubt", "action"]);
  useRegularly(again);
  return <Pages screen="to-do" title="To do" pages={PAGES} at={param} {...(data && { open: data })} />;
}
