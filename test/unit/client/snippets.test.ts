import { readFileSync } from 'node:fs'
import t from 'tap'
import { sampleRecord, snippets } from '../../../src/apps/client/snippets.ts'
import type { ColumnMapping } from '../../../src/contract/destination.ts'

const now = new Date('2026-01-02T03:04:05Z')
const column = (given: Partial<ColumnMapping>): ColumnMapping => ({
  ...{ column_name: 'c', column_type: 'string', source_field: null, semantic_role: null, nullable: true },
  ...given,
})

t.test('the record of a snippet has the keys that the mapped columns read', async (t) => {
  const columns = [
    column({ column_name: 'id', column_type: 'number', source_field: 'order', semantic_role: 'dedupe_id' }),
    column({ column_name: 'made', semantic_role: 'dedupe_id' }),
    column({ column_name: 'arrived', semantic_role: 'received_at' }),
    column({ column_name: 'name' }),
    column({ column_name: 'paid_at' }),
    column({ column_name: 'ingest_ts' }),
    column({ column_name: 'tags', column_type: 'array' }),
  ]
  t.strictSame(sampleRecord([{ columns }, {}], ['ingest_ts'], now), {
    ...{ order: 1, name: 'text', paid_at: '2026-01-02T03:04:05.000Z', tags: [] },
  })
  t.strictSame(sampleRecord([{ columns: [] }], [], now), { event: 'signup', user_id: 42 })
})

t.test('whatever a key is called, the command is one command', async (t) => {
  const record = sampleRecord([{ columns: [column({ column_name: "o'clock $(id)" })] }], [], now)
  const [curl] = snippets('http://127.0.0.1:1/v1/ingest/x', 'ppl1_key', record)
  t.match(curl?.text, `-d '{"o'\\''clock $(id)":"text"}'`)
})

t.test('a page loads the script from where it sends to; no key of a record ends its element', async (t) => {
  const record = sampleRecord([{ columns: [column({ column_name: '</script><b>' })] }], [], now)
  const text = snippets('https://pipes.example:8443/v1/ingest/x', null, record)[2]?.text ?? ''
  t.match(text, '<script src="https://pipes.example:8443/v1/pipectl.js"></script>')
  t.match(text, "pipectl('https://pipes.example:8443/v1/ingest/x')")
  t.equal(text.split('</script>').length, 3)
  const keyed = snippets('https://pipes.example/v1/ingest/x', 'ppl1_key', record)[2]?.text
  t.match(keyed, "key: 'ppl1_key',")
})

t.test('each snippet leads to a guide that there is', async (t) => {
  const index = readFileSync(new URL('../../../docs/index.md', import.meta.url), 'utf8')
  for (const { guide } of snippets('http://127.0.0.1:1/v1/ingest/x', null, {}))
    t.match(index, `[${guide.title}](${guide.name}.md)`)
})
