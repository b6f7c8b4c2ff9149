/** A compaction whose disk fails at any step: the next one goes on, and nothing acknowledged is lost. */
import { testSteps } from '../step-tests.ts'

testSteps('compaction', ['EIO'])
