import type { ComponentType } from "preact";
import { hrefOf, Link } from "../../frame/router.tsx";
import type { ScreenProps } from "../screen.ts";
import { Alerts } from "./alerts.tsx";
import { Doubts } from "./doubts.tsx";
import { Limits } from "./limits.tsx";
import { Locks } from "./locks.tsx";
import { Questions } from "./questions.tsx";
import { Schedules } from "./schedules.tsx";
import "./settings.css";
import { Tokens } from "./tokens.tsx";

const PAGES: Readonly<Record<string, readonly [title: string, page: ComponentType]>> = {
  schedules: ["Schedules", Schedules],
  questions: ["Questions", Questions],
  doubts: ["Unknown outcomes", Doubts],
  alerts: ["Alerts", Alerts],
  locks: ["Locks", Locks],
  limits: ["Limits", Limits],
  tokens: ["Tokens", Tokens],
};

export function Settings({ param }: ScreenProps) {
  const name = Object.hasOwn(PAGES, param) ? param : "schedules";
  const [title, Page] = PAGES[name] ?? ["", Schedules];
  return (
    <>
      <h1>{title}</h1>
      <ul class="settings-pages" aria-label="Settings">
        {Object.entries(PAGES).map(([page, [label]]) => (
          <li key={page}>
            <Link to={hrefOf("settings", page)} aria-current={page === name ? "page" : undefined}>
              {label}
            </Link>
          </li>
        ))}
      </ul>
      <Page key={name} />
    </>
  );
}
