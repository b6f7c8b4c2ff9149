/** The walker of guides itself: what it runs, and what it notices. */
import t from 'tap'
import { fits, openGuide } from '../support/guide-walker.ts'

/** The error of a guide with these lines; null: none. */
async function walked(...lines: string[]): Promise<string | null> {
  const guide = await openGuide('docs/x.md', lines.join('\n'))
  try {
    for (const step of guide.steps) {
      const problem = await guide.take(step)
      if (problem !== null) return problem
    }
    return null
  } finally {
    await guide.close()
  }
}

t.test('one session: variables, directory and functions stay; files are written', async (t) => {
  const problem = await walked(
    ...['```text file=a.txt', 'first', '```'],
    ...['```sh', 'mkdir place && cd place', 'WORD=kept', 'twice() { echo "$1 $1"; }', '```'],
    ...['```sh', 'twice $WORD', 'basename "$PWD"', 'cat ../a.txt', '```'],
    ...['```output', 'kept kept', 'place', 'first', '```'],
  )
  t.equal(problem, null)
})

t.test('lists, here documents and indented output', async (t) => {
  const lines = ['1. In a list:', '', '   ```sh', '   cat <<END', '     a', '   END', '   ```']
  t.equal(await walked(...lines, '   ```output', '     a', '   ```'), null)
})

t.test('a command that fails is named by its line, also when others come after it', async (t) => {
  t.match(
    await walked('# Guide', '', '```sh', 'echo before', 'false', 'echo after', '```'),
    /^docs\/x\.md:5: the block of line 3 ended with 1, not 0:\nbefore\n$/,
  )
  t.match(await walked('```sh', 'no-such-command', '```'), /^docs\/x\.md:2: .*ended with 127/)
  t.match(await walked('```sh', 'echo "', '```'), /^docs\/x\.md:\d: .*ended with [12],/)
  t.equal(await walked('```sh', 'if false; then :; fi', 'false || true', '! false', '```'), null)
})

t.test('an exit code that the guide speaks of', async (t) => {
  t.equal(await walked('```sh exit=6', 'true', '(exit 6)', '```', '```sh', 'true', '```'), null)
  t.match(await walked('```sh exit=6', 'true', '```'), /^docs\/x\.md:1: .*ended with 0, not 6/)
})

t.test('a block that ends the session, as no person would like, is named', async (t) => {
  t.match(await walked('', '```sh', 'exit 3', '```'), /^docs\/x\.md:2: .*ended the session/)
})

t.test('output: stdout and stderr as a terminal shows them, wholly', async (t) => {
  const output = (...lines: string[]) =>
    walked('```sh', 'echo one 1; echo two >&2; test -t 1 && echo three', '```', '```output', ...lines, '```')
  t.equal(await output('one 1', 'two', 'three'), null)
  t.equal(await output('one …', '…', 'three'), null)
  t.equal(await output('…'), null)
  t.match(
    await output('one 1', 'three'),
    /^docs\/x\.md:4: the block of line 1 should show\none 1\nthree\n\nbut shows\none 1\ntwo/,
  )
  t.match(await output('one 2', '…'), /^docs\/x\.md:4: /)
})

t.test(
  'a line that is written over, as progress is, is its last text; no other control characters are left',
  async (t) => {
    const block = ['```sh', "printf '10 %%\\r20 %%\\r\\033[Kdone\\n\\a\\b\\000end\\n'", '```']
    t.equal(await walked(...block, '```output', 'done', 'end', '```'), null)
    // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what must not be there
    t.notMatch(await walked(...block, '```output', 'none', '```'), /[\x00-\x09\x0b-\x1f]/)
  },
)

t.test('what may take a moment is looked at again', async (t) => {
  const block = ['```sh', 'echo a >> n', '```', '```sh eventually', 'echo x >> n; wc -l < n', '```']
  t.equal(await walked(...block, '```output', '4', '```'), null)
})

t.test('the program is there, by its name, and the setups are', async (t) => {
  const setup = [
    '```sh setup=daemon',
    'export PIPECTL_URL=https://pipes.example.com',
    'export PIPECTL_API_KEY=ppl1_…',
    '```',
  ]
  const block = ['```sh', 'pipectl pipes create events', 'pipectl pipes list -o name', '```']
  t.equal(await walked(...setup, ...block, '```output', '…', 'events', '```'), null)
})

t.test('a guide that the walker cannot understand is not taken for one that is right', async (t) => {
  t.rejects(walked('```sh setup=nothing', '```'), /docs\/x\.md:1: there is no setup nothing/)
  t.rejects(walked('```sh eventualy', '```'), /docs\/x\.md:1: no block has the option eventualy/)
  t.rejects(walked('', '```output', 'a', '```'), /docs\/x\.md:2: an output block stands right after/)
  t.rejects(walked('```sh setup=http-endpoint', 'export NONE=1', '```'), /this setup gives no NONE/)
})

t.test('wildcards stand for what they say', async (t) => {
  t.ok(fits('a 12 b\n', 'a … b'))
  t.notOk(fits('a 1\n2 b\n', 'a … b'))
  t.ok(fits('a\nb\nc\n', 'a\n…\nc\n'))
  t.ok(fits('a\nc\n', 'a\n…\nc\n'))
  t.notOk(fits('a\nb\n', 'a\n'))
  t.ok(fits('(a|b) *\n', '(a|b) *'))
  t.notOk(fits('ab\n', 'a.'))
})
