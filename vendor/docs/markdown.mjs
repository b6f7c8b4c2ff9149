/**
 * One Markdown file as the inside of an HTML page. Markup of HTML in the text is a problem and not passed on, so what a
 * page holds is what its Markdown says; every heading has the anchor that GitHub gives it.
 */
import { Marked } from 'marked'

/**
 * `hrefOf(href)`: what a link or picture of the text leads to; null where it leads nowhere, which the caller notes itself.
 * `takesHtml`: leaves HTML out instead of reporting it (the README has a picture for GitHub).
 * Returns {title, html, headings: [{depth, id, html}], anchors, problems}.
 */
export function renderMarkdown(text, { hrefOf, takesHtml = false }) {
  const problems = []
  const headings = []
  const anchors = new Set()
  const marked = new Marked({
    renderer: {
      heading({ tokens, depth, text: title }) {
        const id = freeAnchor(anchorOf(title), anchors)
        const html = this.parser.parseInline(tokens)
        headings.push({ depth, id, html: withoutLinks(html), text: plain(title) })
        if (depth === 1) return `<h1 id="${id}">${html}</h1>\n`
        return `<h${depth} id="${id}">${html} <a class="anchor" href="#${id}" aria-label="Link to this section">#</a></h${depth}>\n`
      },
      link({ href, tokens }) {
        const inside = this.parser.parseInline(tokens)
        const target = hrefOf(href)
        return target === null ? inside : `<a href="${escapeHtml(target)}">${inside}</a>`
      },
      image({ href, text: description }) {
        const target = hrefOf(href)
        return target === null ? '' : `<img src="${escapeHtml(target)}" alt="${escapeHtml(description)}">`
      },
      code({ text: code, lang = '' }) {
        const language = lang.split(/\s/)[0]
        const kind = language === '' ? '' : ` class="language-${escapeHtml(language)}"`
        const block = `<pre tabindex="0"><code${kind}>${escapeHtml(code)}\n</code></pre>`
        return language === 'output' ? `${block}\n` : `<div class="code">${block}</div>\n`
      },
      table(token) {
        const row = (cells, tag) =>
          `<tr>${cells
            .map(({ tokens, align }) => {
              const side = align === null || align === undefined ? '' : ` class="${align}"`
              return `<${tag}${side}>${this.parser.parseInline(tokens)}</${tag}>`
            })
            .join('')}</tr>`
        const isNamed = token.header.some(({ text: name }) => name.trim() !== '')
        const head = isNamed ? `<thead>${row(token.header, 'th')}</thead>` : ''
        const body = token.rows.map((cells) => row(cells, 'td')).join('\n')
        return `<div class="table" tabindex="0"><table>${head}<tbody>\n${body}\n</tbody></table></div>\n`
      },
      html({ text: markup }) {
        const isComment = /^<!--[^>]*-->\s*$/.test(markup)
        if (!takesHtml && !isComment) problems.push(`HTML is not allowed: ${markup.trim().split('\n')[0]}`)
        return ''
      },
    },
  })
  const html = marked.parse(text)
  const titles = headings.filter(({ depth }) => depth === 1)
  if (titles.length !== 1 || headings[0] !== titles[0])
    problems.push('the first heading, and no other, is a #')
  return { title: titles[0]?.text ?? '', html, headings, anchors, problems }
}

/** As GitHub makes it of a heading's text. */
export function anchorOf(heading) {
  return plain(heading)
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\p{M} _-]/gu, '')
    .replaceAll(' ', '-')
}

function freeAnchor(wanted, taken) {
  let id = wanted
  for (let n = 1; taken.has(id); n++) id = `${wanted}-${n}`
  taken.add(id)
  return id
}

/** Without backquotes, stars and the targets of links. */
function plain(inline) {
  return inline
    .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
    .replaceAll(/[`*]/g, '')
    .trim()
}

function withoutLinks(html) {
  return html.replaceAll(/<\/?a\b[^>]*>/g, '')
}

const entities = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' }

export function escapeHtml(text) {
  return text.replaceAll(/[&<>"']/g, (sign) => entities[sign])
}
