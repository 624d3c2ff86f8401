import { may } from "../../data/session.ts";
import { FilterBar, useFilters } from "../../frame/filters.tsx";
import { NeedsObserve } from "../../parts/page.tsx";
import { Counts } from "./counts.tsx";
import { Found } from "./found.tsx";
import "./messages.css";

const FILTERS = {
  q: { label: "Key, subject or id" },
  minutes: { label: "Period", options: { 5: "last 5 minutes", 15: "last 15 minutes", 30: "last 30 minutes" }, unset: "last hour" },
  type: { label: "Type", isRare: true },
  queue: { label: "Queue", isRare: true },
} as const;

export function Messages() {
  const { q, minutes, type, queue } = useFilters(FILTERS);
  return (
    <div class="messages">
      <h1>Messages</h1>
      <FilterBar filters={FILTERS} />
      {q !== undefined && <Found key={q} q={q} />}
      {may("observe") ? <Counts minutes={Number(minutes ?? 60)} type={type} queue={queue} /> : <NeedsObserve what="Messages are counted" />}
    </div>
  );
}
