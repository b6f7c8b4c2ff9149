/**
 * The words of all pages for docs.js, section by section. It is a script that sets a global and no JSON, so that the pages'
 * policy has to allow scripts and no requests, and so that the search also works in pages that are opened from a disk.
 */

/** `pages`: as they are rendered, with source, name, title and html. */
export function searchIndex(pages) {
  const index = pages
    .map(({ source, name, title, html }) => ({
      ...{ title, name, sections: sectionsOf(html) },
      // Other pages, the changelog for example, come behind the guides.
      isGuide: /^docs\/[^/]+\.md$/.test(source),
    }))
    .sort((one, other) => (one.name < other.name ? -1 : 1))
  return `globalThis.pipectlDocs = ${JSON.stringify(index)}\n`
}

/** [[anchor, heading, text]], the page's own heading first. */
function sectionsOf(html) {
  const parts = html.split(/<h[1-6] id="([^"]*)">([\s\S]*?)<\/h[1-6]>/).slice(1)
  const sections = []
  for (let at = 0; at < parts.length; at += 3) {
    const heading = parts[at + 1].replace(/ <a class="anchor"[\s\S]*?<\/a>$/, '')
    sections.push([parts[at], textOf(heading), textOf(parts[at + 2])])
  }
  return sections
}

const signs = { '&amp;': '&', '&lt;': '<', '&gt;': '>', '&quot;': '"', '&#39;': "'" }

function textOf(html) {
  return html
    .replaceAll(/<\/?(?:p|li|td|th|tr|pre|h\d|div|ul|ol|table|br)\b[^>]*>/g, ' ')
    .replaceAll(/<[^>]*>/g, '')
    .replaceAll(/&(?:amp|lt|gt|quot|#39);/g, (sign) => signs[sign])
    .replaceAll(/\s+/g, ' ')
    .trim()
}
