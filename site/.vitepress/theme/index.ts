import type { Theme } from "vitepress";
import DefaultTheme from "vitepress/theme-without-fonts";

export default {
  extends: DefaultTheme,
  enhanceApp({ router }) {
    // A Markdown twin is a file and not a page of the application.
    router.onBeforeRouteChange = (to) => {
      if (!new URL(to, "http://site").pathname.endsWith(".md")) return;
      location.assign(to);
      return false;
    };
  },
} satisfies Theme;
