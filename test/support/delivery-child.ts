/**
 * A process to be killed: it opens the stack in the directory given to it, appends messages one after the other and
 * says on stdout which record numbers are acknowledged.
 */
import { openDeliveryStack } from './delivery-stack.ts'

const [root, firstText] = process.argv.slice(2)
const stack = await openDeliveryStack(root!)
let next = Number(firstText)
process.stdout.write('open\n')
for (;;) {
  const batch = Array.from({ length: 10 }, () => next++)
  await Promise.all(batch.map((n) => stack.append(n)))
  process.stdout.write(`${batch.at(-1)}\n`)
}
