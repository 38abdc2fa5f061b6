-- The keys that nothing connects, handled by loops that know the ordinary case and do only that.
-- What they leave over is for the full algorithms; if they leave nothing, those are not even
-- created.
local swift = { swift_fixed_window, swift_sliding_window, [4] = swift_token_bucket }

local count = 0
for i = 1, #rules do
  local rule, first = rules[i], count + 1
  count = count + runs[i]
  local loop = rule[6] + rule[7] > 0 and #phases == 0 and swift[rule[1]]
  if count >= first and not (loop and loop(rule, first, count)) then
    look(first, count)
    for key = first, count do leave(key, rule) end
  end
end

if #left == 0 and count == #KEYS then
  found[count + 1] = now
  return found
end
