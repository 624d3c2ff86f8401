/** Icons as SVG paths on a grid of 16 by 16. They are not characters, because a font may lack the characters. */
const DRAWN = {
  close: "M4 4l8 8M12 4l-8 8",
  light:
    "M8 5.2a2.8 2.8 0 1 0 0 5.6 2.8 2.8 0 0 0 0-5.6zM8 1.5v1.2M8 13.3v1.2M1.5 8h1.2M13.3 8h1.2M3.4 3.4l.9.9M11.7 11.7l.9.9M12.6 3.4l-.9.9M4.3 11.7l-.9.9",
  dark: "M13 9.6A5.6 5.6 0 0 1 6.4 3 5.6 5.6 0 1 0 13 9.6z",
  warning: "M8 2.2L14.3 13.3H1.7zM8 6.6v3.2M8 11.4v.2",
  system: "M8 2.5a5.5 5.5 0 1 0 0 11zM8 2.5a5.5 5.5 0 0 1 0 11",
} as const;

export function Icon({ name }: { name: keyof typeof DRAWN }) {
  return (
    <svg class="icon" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">
      <path d={DRAWN[name]} />
    </svg>
  );
}
