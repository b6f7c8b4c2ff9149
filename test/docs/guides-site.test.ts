/** The guides as pages: what `npm run build` made of docs/, and what its script says of guides that are not right. */
import { execFile } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'

const root = new URL('../../', import.meta.url).pathname
const built = path.join(root, 'dist', 'docs')
const read = (name: string) => readFileSync(path.join(built, name), 'utf8')
const guides = readdirSync(path.join(root, 'docs')).filter((name) => name.endsWith('.md'))
const pages = readdirSync(built, { recursive: true, encoding: 'utf8' }).filter((name) =>
  name.endsWith('.html'),
)

/** Addresses in a page: of links, styles and pictures. */
const addressesOf = (html: string) =>
  [...html.matchAll(/ (?:href|src)="([^"]*)"/g)].map(([, one = '']) => one)
const idsOf = (html: string) => [...html.matchAll(/ id="([^"]*)"/g)].map(([, one = '']) => one)

t.test('every guide is a page, and the index lists it', async (t) => {
  const index = readFileSync(path.join(root, 'docs/index.md'), 'utf8')
  t.ok(guides.length >= 7)
  for (const name of guides.filter((one) => one !== 'index.md')) {
    t.ok(pages.includes(name.replace(/md$/, 'html')), name)
    t.ok(index.includes(`](${name})`), `docs/index.md lists ${name}`)
  }
})

t.test('every address of every page leads somewhere, also without a daemon', async (t) => {
  const lost: string[] = []
  let followed = 0
  for (const page of pages.filter((one) => one !== '404.html')) {
    for (const address of addressesOf(read(page))) {
      if (/^(https?:|mailto:)/.test(address) || /^(\.\.\/)+openapi\//.test(address)) continue
      const [file = '', anchor] = address.split('#')
      const target = file === '' ? page : path.posix.join(path.posix.dirname(page), file)
      const isThere = existsSync(path.join(built, target))
      followed++
      if (!isThere || (anchor !== undefined && !idsOf(read(target)).includes(anchor)))
        lost.push(`${page}: ${address}`)
    }
  }
  t.same(lost, [])
  t.ok(followed > 200)
})

t.test('a page has the one script, asks no other host and has each anchor once', async (t) => {
  for (const page of pages) {
    const html = read(page)
    const up = page === '404.html' ? '/docs/' : '../'.repeat(page.split('/').length - 1)
    const script = `<script src="${up}docs.js"></script>`
    t.ok(html.includes(script), page)
    t.notMatch(html.replace(script, ''), /<script|<style|<iframe|<form|\son\w+="|\sstyle="/i, page)
    for (const [, address = ''] of html.matchAll(/<(?:link|img)\b[^>]* (?:href|src)="([^"]*)"/g))
      t.notMatch(address, /^(\w+:|\/\/)/, page)
    t.equal(new Set(idsOf(html)).size, idsOf(html).length, page)
    t.match(html, /<html lang="en">[\s\S]*<title>[^<]+<\/title>[\s\S]*<h1/, page)
  }
  t.notMatch(read('docs.css'), /url\(|@import/)
})

t.test('the search has each section of each page, and leads to it', async (t) => {
  type Sections = [anchor: string, heading: string, text: string][]
  const [, json = ''] = /^globalThis\.pipectlDocs = (.*)\n$/.exec(read('search-index.js')) ?? []
  const index: { title: string; name: string; sections: Sections }[] = JSON.parse(json)
  t.same(index.map(({ name }) => name).sort(), pages.filter((name) => name !== '404.html').sort())
  const lost = index.flatMap(({ name, sections }) => {
    const ids = idsOf(read(name))
    return sections
      .filter(([anchor]) => anchor !== '' && !ids.includes(anchor))
      .map(([one]) => `${name}#${one}`)
  })
  t.same(lost, [])
  const { sections } = index.find(({ name }) => name === 'parked.html')!
  t.ok(sections.length > 3)
  t.ok(sections.some(([, , text]) => text.includes('pipectl parked export orders/database > parked.ndjson')))
  t.notMatch(json, /<\/?(?:code|td|a)\b/, 'text, without markup')
})

t.test('what is code keeps every character, to be copied', async (t) => {
  const html = read('parked.html')
  t.match(
    html,
    /<code class="language-sh">[^<]*pipectl parked export orders\/database &gt; parked\.ndjson\n[^<]*<\/code>/,
  )
})

/** Builds with `files`, which replace or join a small sound set of guides, and returns the script's output. */
async function build(t: Test, files: Record<string, string>) {
  const dir = t.testdir()
  const sound = {
    'docs/index.md': '# Guides\n\n## All\n\n- [One](one.md): the one\n- [Two](two.md): the other\n',
    'docs/one.md': '# One\n\n## A `b` part\n\nSee [two](two.md#part) and [settings](../x/a.toml).\n',
    'docs/two.md': '# Two\n\n## Part\n\n## Part\n\n[the second](#part-1), [up](../READ.md), [x](../x)\n',
    'READ.md': '# Read\n\n<picture>\n  <img alt="left out">\n</picture>\n\n[one](docs/one.md#a-b-part)\n',
    'x/a.toml': 'a = 1\n',
  }
  for (const [name, text] of Object.entries({ ...sound, ...files })) {
    mkdirSync(path.join(dir, path.dirname(name)), { recursive: true })
    writeFileSync(path.join(dir, name), text)
  }
  const script = path.join(root, 'vendor/build-docs.mjs')
  const target = path.join(dir, 'built')
  const { stderr } = await promisify(execFile)(process.execPath, [script, dir, target]).catch(
    (error) => error,
  )
  return { target, said: String(stderr).trim().split('\n') }
}

t.test('a sound set of guides: pages, their order, files and folders they link to', async (t) => {
  const { target, said } = await build(t, {})
  t.same(said, [''])
  const page = (name: string) => readFileSync(path.join(target, name), 'utf8')
  t.match(page('one.html'), '<a href="two.html#part">two</a> and <a href="x/a.toml">settings</a>')
  t.match(page('one.html'), '<a rel="next" href="two.html">Two →</a>')
  t.match(page('two.html'), '<a rel="prev" href="one.html">← One</a>')
  t.match(page('two.html'), 'id="part-1"')
  t.match(page('READ.html'), '<a href="one.html#a-b-part">one</a>')
  t.notMatch(page('READ.html'), /picture|left out/)
  t.match(page('x/index.html'), '<a href="a.toml">a.toml</a>')
  t.match(page('x/index.html'), '<link rel="stylesheet" href="../docs.css">')
  t.match(page('404.html'), '<link rel="stylesheet" href="/docs/docs.css">')
})

t.test('what is wrong with a guide ends the build, by name', async (t) => {
  const wrong: [Record<string, string>, RegExp][] = [
    [{ 'docs/three.md': '# Three\n' }, /^docs\/three\.md: no list of docs\/index\.md has it$/],
    [{ 'docs/one.md': '# One\n\n[x](none.md)\n' }, /^docs\/one\.md: none\.md: no such file$/],
    [{ 'docs/one.md': '# One\n\n[x](two.md#none)\n' }, /^docs\/one\.md: two\.md#none: no such heading$/],
    [{ 'docs/one.md': '# One\n\n[x](../../y)\n' }, /: \.\.\/\.\.\/y: no such file$/],
    [{ 'docs/one.md': '# One\n\n[x](/etc/passwd)\n' }, /: \/etc\/passwd: not a relative link$/],
    [{ 'docs/one.md': '# One\n\n[x](javascript:alert)\n' }, /: javascript:alert: not a relative link$/],
    [{ 'docs/one.md': '# One\n\n<b>bold</b>\n' }, /: HTML is not allowed: <b>/],
    [{ 'docs/one.md': '# One\n\n<script>\n1\n</script>\n' }, /: HTML is not allowed: <script>/],
    [{ 'docs/one.md': '## One\n' }, /: the first heading, and no other, is a #$/],
    [{ 'docs/one.md': '# One\n\n# Two\n' }, /: the first heading, and no other, is a #$/],
    [{ 'READ.md': '# Read\n\n[one](docs/one.md#none)\n' }, /^READ\.md: docs\/one\.md#none: no such heading$/],
  ]
  for (const [files, expected] of wrong) {
    const { said, target } = await build(t, files)
    t.match(said[0], expected)
    t.notOk(existsSync(target))
  }
})

t.test('the text of a guide stays text', async (t) => {
  const { target } = await build(t, {
    'docs/one.md': '# A & "b"\n\n`<script>` & &lt;b&gt;\n\n## A & "b"\n\n```sh x\necho "<a>" & true\n```\n',
    'READ.md': '# Read\n',
  })
  const html = readFileSync(path.join(target, 'one.html'), 'utf8')
  t.match(html, '<title>A &amp; &quot;b&quot; · pipectl</title>')
  t.match(html, '<code>&lt;script&gt;</code> &amp; &lt;b&gt;')
  t.match(html, '<code class="language-sh">echo &quot;&lt;a&gt;&quot; &amp; true\n</code>')
})
