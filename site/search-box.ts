import type { Plugin } from "vite";

/** Replacements in the theme's search box, whose roles axe-core refuses: a dialog, a combobox and its options. */
const PIECES: readonly (readonly [theirs: string, ours: string])[] = [
  [
    `role="button"
      :aria-owns="results?.length ? 'localsearch-list' : undefined"
      aria-expanded="true"
      aria-haspopup="listbox"
      aria-labelledby="localsearch-label"
      class="VPLocalSearchBox"`,
    `role="dialog" aria-modal="true" aria-label="Search" class="VPLocalSearchBox"`,
  ],
  [
    `aria-labelledby="localsearch-label"
            autocapitalize`,
    `role="combobox" aria-label="Search" :aria-expanded="results?.length ? 'true' : 'false'" autocapitalize`,
  ],
  [`:aria-labelledby="results?.length ? 'localsearch-label' : undefined"`, `:aria-label="results?.length ? 'Results' : undefined"`],
  [
    `:id="'localsearch-item-' + index"
            :aria-selected="selectedIndex === index ? 'true' : 'false'"
            role="option"`,
    `role="presentation"`,
  ],
  [
    `:aria-label="[...p.titles, p.title].join(' > ')"`,
    `:id="'localsearch-item-' + index" :aria-selected="selectedIndex === index ? 'true' : 'false'" role="option"`,
  ],
  ...["navigateUp", "navigateDown", "select", "close"].map((key) => {
    const label = `:aria-label="translate('modal.footer.${key}KeyAriaLabel')"`;
    return [label, `role="img" ${label}`] as const;
  }),
  [`<span class="title-icon">`, `<span class="title-icon" aria-hidden="true">`],
];

/** Gives the theme's search box its roles. Throws if a version of the theme contains other code. */
export const searchBox: Plugin = {
  name: "search-box",
  enforce: "pre",
  transform(code, id) {
    if (!id.endsWith("/VPLocalSearchBox.vue")) return;
    return PIECES.reduce((text, [theirs, ours]) => {
      if (text.split(theirs).length !== 2)
        throw new Error(`VPLocalSearchBox.vue has not exactly one ${theirs}. Change site/search-box.ts.`);
      return text.replace(theirs, ours);
    }, code);
  },
};
