-- The time of all decisions in this call: Redis's own, read once.
local time = call('TIME')
local now = time[1] * 1000000 + time[2]

-- Writes a state with a time to live, which is never omitted. If no state was found, writes only if the
-- key does not exist, since it may hold another type, such as a list. Returns whether it was written.
local function keep(key, was, state, micros)
  local millis = max(1, ceil(micros / 1000))
  if not was then return call('SET', key, state, 'PX', millis, 'NX') end
  return call('PSETEX', key, millis, state)
end
