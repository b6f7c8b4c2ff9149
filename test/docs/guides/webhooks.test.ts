/** The guides to webhooks, walked against one daemon. Their requests are those of the providers, signed by openssl. */
import { existsSync, readFileSync } from 'node:fs'
import t from 'tap'
import { resourceLimits } from '../../../src/contract/resource-limits.ts'
import { hookRefusalNames, sourceTypes, sourceWords } from '../../../src/contract/source-words.ts'
import { shareDaemon } from '../../support/guide-setups.ts'
import { walk } from '../../support/guide-walker.ts'

const docs = new URL('../../../docs/', import.meta.url)
const page = readFileSync(new URL('webhooks.md', docs), 'utf8')

t.test('the table of reasons has each reason, and no other', async (t) => {
  const [, section = ''] = /## What is rejected([\s\S]*?)\n## /.exec(page)!
  const rows = [...section.matchAll(/^\| `(\w+)` \|/gm)].map(([, reason]) => reason)
  t.same(rows.sort(), [...hookRefusalNames].sort())
})

t.test('each source is in the table of providers, and its guide is a page', async (t) => {
  for (const type of sourceTypes) {
    t.ok(page.includes(`\`${type}\``), type)
    t.ok(existsSync(new URL(sourceWords(type).guide, docs)), type)
  }
})

t.test('its limits are the defaults', async (t) => {
  t.match(
    page,
    `At most ${resourceLimits.formFields.toLocaleString('en-US')} fields and ${resourceLimits.formBytes / 2 ** 20} MiB`,
  )
  const twilio = readFileSync(new URL('webhooks-twilio.md', docs), 'utf8')
  t.match(twilio, `up to ${resourceLimits.hookParsedBytes / 1024} KiB`)
  const standard = readFileSync(new URL('webhooks-standard.md', docs), 'utf8')
  t.match(standard, `up to ${resourceLimits.hookSignatures} signatures`)
})

const daemon = await shareDaemon()
t.teardown(() => daemon.close())
const own = { daemon: daemon.setup }

await walk('webhooks', own)
await walk('webhooks-stripe', own)
await walk('webhooks-github', own)
await walk('webhooks-shopify', own)
await walk('webhooks-slack', own)
await walk('webhooks-twilio', own)
await walk('webhooks-meta', own)
await walk('webhooks-standard', own)
await walk('webhooks-other', own)
