/**
 * Comments cite documents of this repository as `path.md` or `path.md#heading`, the heading as GitHub makes an anchor of it.
 * Every citation resolves, and no comment cites a document that only its author had.
 */
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import path from 'node:path'
import t from 'tap'

const root = new URL('../../', import.meta.url).pathname
const { anchorOf } = await import(path.join(root, 'vendor/docs/markdown.mjs'))

const folders = ['src', 'test', 'vendor', 'bench', 'bin', 'config', 'systemd', 'monitoring', 'sdk']
const documents = ['README.md', 'ARCHITECTURE.md', 'CONTRIBUTING.md', 'docs/dev/contract.md']
const texts = /\.(ts|tsx|mjs|js|css|toml|service|sh|yml|html)$/
/** These name documents that do not exist, as examples. */
const withFixtures = [
  'test/docs/citations.test.ts',
  'test/docs/guides-site.test.ts',
  'test/docs/guides.test.ts',
]

const citation = /(?<![\w./-])((?:docs\/[\w/-]+|ARCHITECTURE|CONTRIBUTING)\.md)(?:#([\p{L}\p{N}_-]+))?/gu
const unresolvable =
  /\b(?:contract|spec|architecture|style)(?:\.md)?[,:]? (?:"[A-Z]|rules? \d|section \d|§)/gi

interface Citation {
  document: string
  heading: string | undefined
}

function citationsIn(text: string): Citation[] {
  return [...text.matchAll(citation)].map(([, document = '', heading]) => ({ document, heading }))
}

const anchors = new Map<string, Set<string>>()

/** The anchors of a document's headings; null if there is no such document. */
function anchorsOf(document: string): Set<string> | null {
  const known = anchors.get(document)
  if (known !== undefined) return known
  const file = path.join(root, document)
  if (!existsSync(file)) return null
  const outsideCode = readFileSync(file, 'utf8').replace(/^```[\s\S]*?^```/gm, '')
  const headings = [...outsideCode.matchAll(/^#{1,6} (.+)$/gm)].map(([, title = '']) => anchorOf(title))
  const found = new Set<string>(headings)
  anchors.set(document, found)
  return found
}

function problemsIn(name: string, text: string): string[] {
  const lost = citationsIn(text).flatMap(({ document, heading }) => {
    const known = anchorsOf(document)
    if (known === null) return [`${name}: there is no ${document}`]
    return heading === undefined || known.has(heading) ? [] : [`${name}: ${document} has no #${heading}`]
  })
  return [
    ...lost,
    ...[...text.matchAll(unresolvable)].map(([words]) => `${name}: nothing to follow: ${words}`),
  ]
}

function sources(): string[] {
  return folders.flatMap((folder) =>
    readdirSync(path.join(root, folder), { recursive: true, encoding: 'utf8' })
      .map((file) => path.join(folder, file))
      .filter((file) => texts.test(file) && statSync(path.join(root, file)).isFile())
      .filter((file) => !file.includes('node_modules') && !withFixtures.includes(file)),
  )
}

t.test('every citation in the code resolves to a document and a heading', async (t) => {
  let found = 0
  const problems = sources().flatMap((file) => {
    const text = readFileSync(path.join(root, file), 'utf8')
    found += citationsIn(text).length
    return problemsIn(file, text)
  })
  t.same(problems, [])
  t.ok(found > 120, `${found} citations`)
})

t.test('the documents for developers cite nothing that is not there', async (t) => {
  for (const document of documents) {
    t.same(problemsIn(document, readFileSync(path.join(root, document), 'utf8')), [])
  }
})

/** Its relative links, and what it names in backquotes of the repository's folders. */
function pathsIn(document: string): string[] {
  const text = readFileSync(path.join(root, document), 'utf8')
  const links = [...text.matchAll(/\]\(([^)#]+)(?:#[^)]*)?\)/g)].map(([, link = '']) => link)
  const named = [...text.matchAll(/`((?:src|test|config|systemd|openapi|bin|vendor|bench)\/[\w./-]*)`/g)]
  const beside = links.filter((link) => !/^[a-z]+:/.test(link))
  return [
    ...beside.map((link) => path.join(path.dirname(document), link)),
    ...named.map(([, name = '']) => name),
  ]
}

t.test('every link and every path that the main documents name leads somewhere', async (t) => {
  for (const document of documents) {
    const paths = pathsIn(document)
    t.ok(paths.length > 3, `${document} names paths`)
    t.same(
      paths.filter((name) => !existsSync(path.join(root, name))),
      [],
      document,
    )
  }
})

t.test(
  'negative control: a lost document, a lost heading and an unresolvable form are noticed',
  async (t) => {
    t.same(problemsIn('x', '// docs/dev/contract.md#retry and docs/dev/contract.md are there'), [])
    t.same(problemsIn('x', '// docs/dev/no-such.md#retry'), ['x: there is no docs/dev/no-such.md'])
    t.same(problemsIn('x', '// docs/dev/contract.md#retries.'), ['x: docs/dev/contract.md has no #retries'])
    t.same(problemsIn('x', '// the waits (contract "Delivery")'), ['x: nothing to follow: contract "D'])
    t.same(problemsIn('x', '// merged (spec rule 1)'), ['x: nothing to follow: spec rule 1'])
  },
)
