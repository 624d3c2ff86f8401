import { useCell } from "../data/cell.ts";
import { notices, takeAway } from "../data/notices.ts";
import { Icon } from "../parts/icon.tsx";
import { Link } from "./router.tsx";

export function Notices() {
  const shown = useCell(notices);
  return (
    <div class="notices" role="status">
      {shown.map((notice) => (
        <p key={notice}>
          <span>
            {notice.said}{" "}
            {notice.href !== undefined && (
              <Link to={notice.href} onClickCapture={() => takeAway(notice)}>
                Show it
              </Link>
            )}
          </span>
          <button type="button" class="plain" aria-label="Dismiss" onClick={() => takeAway(notice)}>
            <Icon name="close" />
          </button>
        </p>
      ))}
    </div>
  );
}
