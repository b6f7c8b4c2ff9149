/** Subjects of NATS destinations: none is one of a cluster of pipectl, whose messages are records of any pipe. */
import t from 'tap'
import type { NatsSpec } from '../../../src/destinations/driver.ts'
import { subjectFault, subjectOf } from '../../../src/destinations/nats/addresses.ts'

t.test('a subject of clusters is rejected when it is saved, and when a name completes it', async (t) => {
  for (const subject of ['pipectl.pipectl.buffer.x.f', 'pipectl.a', 'pipectl.{pipe_id}'])
    t.match(subjectFault(subject), /must not begin with pipectl\./, subject)
  for (const subject of ['pipectl', 'events.pipectl.a', 'pipectl2.a', '{pipe_name}.a'])
    t.equal(subjectFault(subject), null, subject)
  const of = (subject: string, pipeName: string) => {
    const spec: Pick<NatsSpec, 'pipeName' | 'pipeId' | 'destinationId'> & { config: { subject: string } } = {
      ...{ pipeName, pipeId: 'p', destinationId: 'd' },
      config: { subject },
    }
    return subjectOf(spec as NatsSpec)
  }
  t.throws(() => of('{pipe_name}.a', 'pipectl'), { code: 'invalid_subject' })
  t.throws(() => of('pip{pipe_name}.a', 'ectl'), { code: 'invalid_subject' })
  t.equal(of('{pipe_name}.a', 'pipectl-2'), 'pipectl-2.a')
})
