/** A stop of the buffer whose disk fails or is full, or that is killed, at any step: the next start continues, and nothing acknowledged is lost. */
import { testSteps } from '../step-tests.ts'

testSteps('stop')
