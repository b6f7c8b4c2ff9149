/**
 * All pages of the guides, with every link between them checked: docs/*.md and whatever of this repository they link to.
 *
 *   docs/*.md               their names, .html
 *   other Markdown          the same path, .html
 *   a folder                its path, index.html: a list of its files, which come along
 *   any other file          its path, as it is
 *
 * Where the daemon serves /docs/, /openapi/ is beside it: links to that folder stay what they are.
 */
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import path from 'node:path'
import { anchorOf, escapeHtml, renderMarkdown } from './markdown.mjs'
import { searchIndex } from './search-index.mjs'

const index = 'docs/index.md'

/** Returns {files: Map of name → text or Buffer, problems: [line]}. */
export function buildSite(root) {
  const site = new Site(root)
  const { groups, order } = site.readIndex()
  for (const source of site.sources()) site.render(source)
  site.checkAnchors()
  for (const source of site.guides().filter((one) => one !== index && !order.includes(one)))
    site.problem(source, `no list of ${index} has it`)
  const files = new Map(site.copies)
  for (const page of site.pages.values()) files.set(page.name, layout(page, { groups, order, site }))
  files.set('search-index.js', searchIndex([...site.pages.values()]))
  const lost = { name: '404.html', source: '', title: 'Not found', headings: [], html: notFound }
  files.set(lost.name, layout(lost, { groups, order, site }))
  return { files, problems: site.problems }
}

const notFound = `<h1>There is no such page</h1>
<p>It may have had another name in another version. <a href="index.html">All guides</a></p>
`

class Site {
  problems = []
  /** By source, e.g. docs/parked.md. */
  pages = new Map()
  copies = new Map()
  #root
  #anchorLinks = []

  constructor(root) {
    this.#root = root
  }

  problem(source, text) {
    this.problems.push(`${source}: ${text}`)
  }

  guides() {
    const folder = path.join(this.#root, 'docs')
    return readdirSync(folder)
      .filter((name) => name.endsWith('.md'))
      .map((name) => `docs/${name}`)
      .sort()
  }

  /** Pages to render; grows while they are, by what they link to. */
  *sources() {
    for (const source of this.guides()) this.#wanted.add(source)
    // A Set is walked in the order of insertion, what is added meanwhile included.
    yield* this.#wanted
  }
  #wanted = new Set()

  /** `## Group` headings and the lists of links below them. */
  readIndex() {
    const groups = []
    for (const line of readFileSync(path.join(this.#root, index), 'utf8').split('\n')) {
      const heading = /^## (.*)$/.exec(line)
      if (heading) groups.push({ title: heading[1], items: [] })
      const item = /^- \[([^\]]+)\]\(([^)#]+\.md)\)/.exec(line)
      if (item && groups.length > 0)
        groups.at(-1).items.push({ title: item[1].replaceAll('`', ''), source: resolve(index, item[2]) })
    }
    const listed = groups.filter(({ items }) => items.length > 0)
    return { groups: listed, order: listed.flatMap(({ items }) => items.map(({ source }) => source)) }
  }

  render(source) {
    const name = nameOf(source)
    const text = readFileSync(path.join(this.#root, source), 'utf8')
    const hrefOf = (href) => this.#hrefOf(href, source)
    const { problems, ...page } = renderMarkdown(text, { hrefOf, takesHtml: !source.startsWith('docs/') })
    for (const one of problems) this.problem(source, one)
    this.pages.set(source, { ...page, name, source })
  }

  #hrefOf(href, source) {
    if (/^(https?|mailto):/.test(href)) return href
    if (/^[a-z][a-z0-9+.-]*:|^\//i.test(href)) return this.#nowhere(source, href, 'not a relative link')
    const [file, anchor] = href.split('#')
    const target = file === '' ? source : resolve(source, decodeURI(file))
    const isOutside = target.startsWith('..') || /(^|\/)(\.git|node_modules)(\/|$)/.test(target)
    if (isOutside || !existsSync(path.join(this.#root, target)))
      return this.#nowhere(source, href, 'no such file')
    if (anchor !== undefined) this.#anchorLinks.push({ source, href, target, anchor })
    if (target === source && anchor !== undefined) return `#${anchor}`
    const relative = path.posix.relative(path.posix.dirname(nameOf(source)), this.#place(target))
    return anchor === undefined ? relative : `${relative}#${anchor}`
  }

  #nowhere(source, href, why) {
    this.problem(source, `${href}: ${why}`)
    return null
  }

  /** Where it is found below /docs/. */
  #place(target) {
    if (target.startsWith('openapi/')) return `../${target}`
    const whole = path.join(this.#root, target)
    if (statSync(whole).isDirectory()) return this.#addFolder(target)
    if (target.endsWith('.md')) this.#wanted.add(target)
    else this.copies.set(nameOf(target), readFileSync(whole))
    return nameOf(target)
  }

  #addFolder(folder) {
    const name = `${folder}/index.html`
    if (this.pages.has(folder)) return name
    const names = readdirSync(path.join(this.#root, folder), { withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => entry.name)
      .sort()
    const page = { name, source: folder, title: folder, headings: [], anchors: new Set() }
    this.pages.set(folder, page)
    const items = names.map((one) => {
      const place = path.posix.relative(folder, this.#place(`${folder}/${one}`))
      return `<li><a href="${escapeHtml(place)}">${escapeHtml(one)}</a></li>`
    })
    page.html = `<h1>${escapeHtml(folder)}</h1>\n<ul>\n${items.join('\n')}\n</ul>\n`
    return name
  }

  checkAnchors() {
    for (const { source, href, target, anchor } of this.#anchorLinks) {
      const isThere = this.pages.get(target)?.anchors.has(anchor) ?? false
      if (!isThere) this.problem(source, `${href}: no such heading`)
    }
  }
}

function resolve(source, href) {
  return path.posix.join(path.posix.dirname(source), href).replace(/\/$/, '')
}

function nameOf(source) {
  return source.replace(/^docs\//, '').replace(/\.md$/, '.html')
}

function layout(page, { groups, order, site }) {
  const from = path.posix.dirname(page.name)
  // Under an unknown path what is relative leads nowhere: the daemon sends this page for all of them.
  const to = (name) => (page.name === '404.html' ? `/docs/${name}` : path.posix.relative(from, name) || name)
  const title = page.source === index ? 'pipectl guides' : `${page.title} · pipectl`
  const body = page.name === '404.html' ? page.html.replace('href="', 'href="/docs/') : page.html
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeHtml(title)}</title>
<link rel="icon" href="${to('favicon.svg')}">
<link rel="stylesheet" href="${to('docs.css')}">
<script src="${to('docs.js')}"></script>
</head>
<body>
<a class="skip" href="#main">Skip to the page</a>
<div class="columns">
<div class="side">
<header>
<a class="brand" href="${to('index.html')}"><img src="${to('favicon.svg')}" alt="">pipectl guides</a>
<a class="to-pages" href="#pages">All pages</a>
<button class="menu" type="button" aria-expanded="false" aria-controls="pages">All pages</button>
<div class="search" role="search">
<input id="search" type="search" placeholder="Search (press /)" aria-label="Search the guides" aria-controls="results" autocomplete="off" spellcheck="false">
<ul id="results" aria-label="Results" hidden></ul>
</div>
<p id="status" role="status"></p>
</header>
<nav id="pages" aria-label="Pages">
${groups.map((group) => groupOf(group, page, to, site)).join('\n')}
</nav>
</div>
${contentsBeside(page)}<main id="main">
${contentsAbove(page)}${body}${neighbours(page, { groups, order, to, site })}</main>
</div>
</body>
</html>
`
}

/** The sections of a long page: beside it where the window is wide, and folded above it elsewhere. A style shows one of them. */
function contentsBeside(page) {
  const items = contents(page)
  if (items === '') return ''
  return `<nav class="beside" aria-labelledby="beside"><h2 id="beside">On this page</h2>\n${items}</nav>\n`
}

function contentsAbove(page) {
  const items = contents(page)
  return items === '' ? '' : `<details class="contents"><summary>On this page</summary>\n${items}</details>\n`
}

function contents({ headings, source }) {
  const sections = headings.filter(({ depth }) => depth === 2)
  if (sections.length < 3 || source === index) return ''
  const items = sections.map(({ id, html }) => `<li><a href="#${id}">${html}</a></li>`).join('\n')
  return `<ul>\n${items}\n</ul>\n`
}

function neighbours(page, { groups, order, to, site }) {
  const at = order.indexOf(page.source)
  if (at === -1) return ''
  const titles = new Map(groups.flatMap(({ items }) => items.map(({ source, title }) => [source, title])))
  const link = (source, words, rel) =>
    site.pages.has(source)
      ? `<a rel="${rel}" href="${to(nameOf(source))}">${words(escapeHtml(titles.get(source)))}</a>`
      : ''
  const previous = link(order[at - 1], (name) => `← ${name}`, 'prev')
  const next = link(order[at + 1], (name) => `${name} →`, 'next')
  return `<nav class="neighbours" aria-label="Previous and next">${previous} ${next}</nav>\n`
}

function groupOf({ title, items }, page, to, site) {
  const links = items
    .filter(({ source }) => site.pages.has(source))
    .map(({ title: name, source }) => {
      const here = source === page.source ? ' aria-current="page"' : ''
      return `<li><a href="${to(nameOf(source))}"${here}>${escapeHtml(name)}</a></li>`
    })
  return `<h2 id="${anchorOf(`pages ${title}`)}">${escapeHtml(title)}</h2>\n<ul>\n${links.join('\n')}\n</ul>`
}
