import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import t from 'tap'
import ts from 'typescript'

/** Words that are not plain standard English: users never read them. */
const banned = /\b(anew|for ever|mended|mend|mends)\b/i
const root = new URL('../../src/', import.meta.url).pathname

/** The text of every string and template of a file; comments and names are left to reviews. */
function textsOf(file: string, source: string): string[] {
  const parsed = ts.createSourceFile(file, source, ts.ScriptTarget.Latest, false)
  const texts: string[] = []
  const visit = (node: ts.Node): void => {
    if (ts.isStringLiteralLike(node) || ts.isTemplateHead(node) || ts.isTemplateMiddleOrTemplateTail(node)) {
      texts.push(node.text)
    }
    if (ts.isJsxText(node)) texts.push(node.text)
    ts.forEachChild(node, visit)
  }
  visit(parsed)
  return texts
}

/** A comment is a sentence with a subject: a relative clause without its noun makes every reader stop. */
const withoutSubject = /(?:\/\*\*?|\/\/|^\s*\*) (?:Of|What|Whose|Whoever)\b.*/gm

const files = readdirSync(root, { recursive: true, encoding: 'utf8' }).filter((file) => /\.tsx?$/.test(file))

t.test('no message, help or description uses a word that makes a reader stop', async (t) => {
  const found = files.flatMap((file) =>
    textsOf(file, readFileSync(path.join(root, file), 'utf8'))
      .filter((text) => banned.test(text))
      .map((text) => `${file}: ${text}`),
  )
  t.same(found, [])
  t.ok(files.length > 100)
})

t.test('negative control: it is found in strings and templates, and not in comments', async (t) => {
  // biome-ignore lint/suspicious/noTemplateCurlyInString: it is source text
  const source = "/* anew */ const a = 'read anew'; const b = `${a} for ever`"
  t.same(
    textsOf('x.ts', source).filter((text) => banned.test(text)),
    ['read anew', ' for ever'],
  )
})

t.test('the files beside the code keep to it', async (t) => {
  for (const file of ['../../systemd/pipectl.service', '../../config/pipectl.toml']) {
    t.notMatch(readFileSync(new URL(file, import.meta.url), 'utf8'), banned, file)
  }
})

t.test('no comment begins with a relative clause in place of its subject', async (t) => {
  const found = files.flatMap((file) =>
    (readFileSync(path.join(root, file), 'utf8').match(withoutSubject) ?? []).map(
      (line) => `${file}: ${line}`,
    ),
  )
  t.same(found, [])
})

t.test(
  'negative control: such a comment is found in all of its forms, and in the middle of none',
  async (t) => {
    const source = [
      '/** Of one pipe. */',
      '// What it holds.',
      '/**',
      ' * Whose it is.',
      ' */',
      '/** The owner. Whoever asks gets it. */',
      'const of = 1 // Whoever reads',
      '/** Offset of the pipe: What. */',
    ].join('\n')
    t.same(
      source.match(withoutSubject)?.map((line) => line.trim()),
      ['/** Of one pipe. */', '// What it holds.', '* Whose it is.', '// Whoever reads'],
    )
  },
)
